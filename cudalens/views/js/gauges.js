// Live gauges: a card per GPU, a bar and a line of the last moments per gauge. Readings come as state of the widget, which
// the ipykernel sends from a thread, also while a cell runs. A sign of life goes back, so that nobody reads for nobody.

import { metricText } from "./devices/metrics.js";
import { uiElement, uiSize } from "./shared/dom.js";

const GAUGES_SVG = "http://www.w3.org/2000/svg";
const GAUGES_KEPT = 240;
const GAUGES_SIGN_MS = 5000;
const GAUGES_SPARK = { width: 150, height: 24 };

// The moments that this page has seen, for views that come later; the kernel may be busy when they ask.
let gaugeMoments = [];

function keepMoment(moment) {
  if (!moment?.rows || gaugeMoments.some(({ t }) => t === moment.t)) return;
  gaugeMoments.push(moment);
  gaugeMoments.sort((a, b) => a.t - b.t);
  gaugeMoments = gaugeMoments.slice(-GAUGES_KEPT);
}

function initializeGauges({ model }) {
  keepMoment(model.get("_moment"));
  model.on("change:_moment", () => keepMoment(model.get("_moment")));
  model.on("change:_gpus", () => (gaugeMoments = []));
}

function gaugeText(gauge, value, gpu) {
  if (value === null || value === undefined) return "-";
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
    const node = uiElement("div", { class: "cl-gauge" }, uiElement("span", { class: "cl-gauge-title" }, gauge.title), value, spark,
      uiElement("div", { class: `cl-gauge-bar cl-gauge-${k}` }, fill));
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
    fill.style.width = `${Math.min(100, Math.max(0, (100 * (last[k] ?? 0)) / full)).toFixed(1)}%`;
    line.setAttribute("d", sparkPath(known, full));
  });
  card.slowed.textContent = last[card.rows.length] ? `clocks held down by ${last[card.rows.length]}` : "";
}

function sparkPath(values, full) {
  const { width, height } = GAUGES_SPARK;
  const step = width / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, k) => (value === null ? [] :
    [`${(k * step).toFixed(1)} ${(height - 1 - (height - 2) * Math.min(1, Math.max(0, value / full))).toFixed(1)}`]));
  return points.length ? `M${points.join("L")}` : "M0 0";
}

// The busiest GPU in a line: the answer before the cards.
function gaugesVerdict(gpus, gauges) {
  const rows = gaugeMoments[gaugeMoments.length - 1]?.rows ?? [];
  if (!gpus.length || !rows.length) return "No GPU is being read";
  const busiest = rows.reduce((best, row, k) => ((row[0] ?? -1) > (rows[best][0] ?? -1) ? k : best), 0);
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
      // The kernel is gone, and with it whoever wanted to know.
    }
  };
  const parts = {
    badge: uiElement("span", { class: "cl-gauge-badge" }),
    verdict: uiElement("strong", {}),
    cards: uiElement("div", { class: "cl-gauge-cards" }),
    notes: uiElement("ul", { class: "cl-gauge-notes" }),
    about: uiElement("span", {}),
    button: uiElement("button", { type: "button", onclick: () => say("stop") }, "Stop"),
  };
  const root = uiElement("div", { class: "cudalens-gauges" },
    uiElement("p", { class: "cl-gauge-verdict" }, parts.badge, parts.verdict), parts.cards, parts.notes,
    uiElement("p", { class: "cl-gauge-about" }, uiElement("span", {}, uiElement("span", { class: "cl-gauge-dot" }), parts.about), parts.button));
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

export default { initialize: initializeGauges, render: renderGauges };
