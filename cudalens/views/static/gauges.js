/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */

// js/shared/dom.js
function uiElement(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === void 0 || value === false) continue;
    if (key === "onclick") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== void 0));
  return node;
}
function uiDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}
function uiSize(bytes) {
  if (bytes === null || bytes === void 0 || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${uiSize(-bytes)}`;
  for (const [scale, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (bytes >= 0.9995 * scale) return `${uiDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}
function uiPercent(value) {
  if (value === null || value === void 0 || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

// js/memory/plot.js
var BYTE_STEPS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

// js/devices/metrics.js
function metricText({ unit, column }, value) {
  if (value === void 0 || Number.isNaN(value)) return "-";
  if (column.endsWith("_bytes")) return uiSize(value);
  return unit === "%" ? uiPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}

// js/gauges.js
var GAUGES_SVG = "http://www.w3.org/2000/svg";
var GAUGES_KEPT = 240;
var GAUGES_SIGN_MS = 5e3;
var GAUGES_SPARK = { width: 150, height: 24 };
var gaugeMoments = [];
function keepMoment(moment) {
  if (!moment?.rows || gaugeMoments.some(({ t }) => t === moment.t)) return;
  gaugeMoments.push(moment);
  gaugeMoments.sort((a, b) => a.t - b.t);
  gaugeMoments = gaugeMoments.slice(-GAUGES_KEPT);
}
function initializeGauges({ model }) {
  keepMoment(model.get("_moment"));
  model.on("change:_moment", () => keepMoment(model.get("_moment")));
  model.on("change:_gpus", () => gaugeMoments = []);
}
function gaugeText(gauge, value, gpu) {
  if (value === null || value === void 0) return "-";
  const text = metricText(gauge, value);
  const total = gpu.full[gauge.column];
  return gauge.column === "memory_used_bytes" && total ? `${text} of ${uiSize(total)}` : text;
}
function gaugeCard(gpu, gauges) {
  const rows = gauges.map((gauge, k) => {
    const value = uiElement("span", { class: "cl-gauge-value" }, "-");
    const fill = uiElement("div", {});
    const spark = document.createElementNS(GAUGES_SVG, "svg");
    const line = document.createElementNS(GAUGES_SVG, "path");
    spark.setAttribute("class", "cl-gauge-spark");
    spark.setAttribute("viewBox", `0 0 ${GAUGES_SPARK.width} ${GAUGES_SPARK.height}`);
    spark.setAttribute("preserveAspectRatio", "none");
    for (const [name, text] of [["fill", "none"], ["stroke", "currentColor"]]) line.setAttribute(name, text);
    spark.append(line);
    const node = uiElement(
      "div",
      { class: "cl-gauge" },
      uiElement("span", { class: "cl-gauge-title" }, gauge.title),
      value,
      spark,
      uiElement("div", { class: `cl-gauge-bar cl-gauge-${k}` }, fill)
    );
    return { gauge, node, value, fill, line };
  });
  const slowed = uiElement("p", { class: "cl-gauge-slowed" });
  const head = uiElement("h4", {}, uiElement("span", { class: "cl-gauge-label" }, gpu.label), ` ${gpu.name}`);
  return { gpu, rows, slowed, node: uiElement("article", { class: "cl-gauge-card" }, head, ...rows.map(({ node }) => node), slowed) };
}
function paintCard(card, number) {
  const moments = gaugeMoments.filter(({ rows }) => rows.length > number).map(({ rows }) => rows[number]);
  const last = moments[moments.length - 1];
  if (!last) return;
  card.rows.forEach(({ gauge, value, fill, line }, k) => {
    const known = moments.map((row) => row[k]);
    const full = card.gpu.full[gauge.column] || Math.max(...known.filter((v) => v !== null), 0) || 1;
    const text = gaugeText(gauge, last[k], card.gpu);
    if (value.textContent !== text) value.textContent = text;
    value.title = text;
    fill.style.width = `${Math.min(100, Math.max(0, 100 * (last[k] ?? 0) / full)).toFixed(1)}%`;
    line.setAttribute("d", sparkPath(known, full));
  });
  card.slowed.textContent = last[card.rows.length] ? `clocks held down by ${last[card.rows.length]}` : "";
}
function sparkPath(values, full) {
  const { width, height } = GAUGES_SPARK;
  const step = width / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, k) => value === null ? [] : [`${(k * step).toFixed(1)} ${(height - 1 - (height - 2) * Math.min(1, Math.max(0, value / full))).toFixed(1)}`]);
  return points.length ? `M${points.join("L")}` : "M0 0";
}
function gaugesVerdict(gpus, gauges) {
  const rows = gaugeMoments[gaugeMoments.length - 1]?.rows ?? [];
  if (!gpus.length || !rows.length) return "No GPU is being read";
  const busiest = rows.reduce((best, row, k) => (row[0] ?? -1) > (rows[best][0] ?? -1) ? k : best, 0);
  const texts = gauges.slice(0, 4).map((gauge, k) => gaugeText(gauge, rows[busiest][k], gpus[busiest] ?? gpus[0]));
  const share = rows[busiest][0];
  if (share !== null) texts[0] = share ? `busy ${texts[0]}` : "idle";
  const known = texts.filter((text) => text !== "-").join(", ") || "it tells nothing";
  const others = rows.length > 1 ? `; ${rows.length} GPUs, ${share ? "this one the busiest" : "none busier"}` : "";
  return `${(gpus[busiest] ?? gpus[0]).label}: ${known}${others}`;
}
function hideGaugesPicture(id, isHidden) {
  if (!id) return;
  for (const picture of document.querySelectorAll(`[data-cudalens-static="${CSS.escape(id)}"]`)) {
    const output = picture.closest(".jp-OutputArea-child") ?? picture;
    output.style.display = isHidden ? "none" : "";
  }
}
function renderGauges({ model, el }) {
  const view = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
  const say = (kind) => {
    try {
      model.send({ kind, view });
    } catch {
    }
  };
  const parts = {
    badge: uiElement("span", { class: "cl-gauge-badge" }),
    verdict: uiElement("strong", {}),
    cards: uiElement("div", { class: "cl-gauge-cards" }),
    notes: uiElement("ul", { class: "cl-gauge-notes" }),
    about: uiElement("span", {}),
    button: uiElement("button", { type: "button", onclick: () => say("stop") }, "Stop")
  };
  const root = uiElement(
    "div",
    { class: "cudalens-gauges" },
    uiElement("p", { class: "cl-gauge-verdict" }, parts.badge, parts.verdict),
    parts.cards,
    parts.notes,
    uiElement("p", { class: "cl-gauge-about" }, uiElement("span", {}, uiElement("span", { class: "cl-gauge-dot" }), parts.about), parts.button)
  );
  el.replaceChildren(root);
  let cards = [];
  function paint() {
    hideGaugesPicture(model.get("_picture"), true);
    parts.verdict.textContent = gaugesVerdict(model.get("_gpus"), model.get("_gauges"));
    cards.forEach(paintCard);
  }
  function build() {
    cards = model.get("_gpus").map((gpu) => gaugeCard(gpu, model.get("_gauges")));
    parts.cards.replaceChildren(...cards.map(({ node }) => node));
    paint();
  }
  function tell() {
    const { badge = "", about = "", notes = [], ended = "" } = model.get("_about");
    parts.badge.textContent = badge;
    parts.about.textContent = about;
    parts.notes.replaceChildren(...notes.map((note) => uiElement("li", {}, note)));
    root.dataset.state = ended ? "ended" : "live";
    parts.button.hidden = Boolean(ended);
  }
  const history = (message) => {
    if (message?.kind !== "history") return;
    message.moments.forEach(keepMoment);
    paint();
  };
  const leave = () => say("left");
  keepMoment(model.get("_moment"));
  build();
  tell();
  model.on("msg:custom", history);
  model.on("change:_gpus", build);
  model.on("change:_moment", paint);
  model.on("change:_about", tell);
  say("history");
  const signs = setInterval(() => model.get("_about").ended || say("here"), GAUGES_SIGN_MS);
  window.addEventListener("pagehide", leave);
  return () => {
    clearInterval(signs);
    window.removeEventListener("pagehide", leave);
    for (const [name, listener] of [["msg:custom", history], ["change:_gpus", build], ["change:_moment", paint], ["change:_about", tell]]) {
      model.off(name, listener);
    }
    leave();
    hideGaugesPicture(model.get("_picture"), false);
  };
}
var gauges_default = { initialize: initializeGauges, render: renderGauges };
export {
  gauges_default as default
};
