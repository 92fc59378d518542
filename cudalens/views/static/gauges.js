/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */

// js/shared/dom.js
var SVG_NAMESPACE = "http://www.w3.org/2000/svg";
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === void 0 || value === false) continue;
    if (typeof value === "function") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== void 0));
  return node;
}
function svgElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}
function findAll(root, selector, type) {
  return (
    /** @type {Found[]} */
    [...root.querySelectorAll(selector)].filter((node) => node instanceof type)
  );
}

// js/shared/format.js
function threeDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}
var BYTE_UNITS = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"]
];
function formatBytes(bytes) {
  if (bytes === null || bytes === void 0 || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${formatBytes(-bytes)}`;
  for (const [scale, unit] of BYTE_UNITS) {
    if (bytes >= 0.9995 * scale) return `${threeDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}
function formatPercent(value) {
  if (value === null || value === void 0 || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

// js/shared/model.js
function uniqueId() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}

// js/shared/static_pictures.js
function findPictures(id) {
  return id ? findAll(document, `[data-cudalens-static="${CSS.escape(id)}"]`, HTMLElement) : [];
}
function hidePictures(id, isHidden) {
  const outputs = findPictures(id).map(
    (picture) => (
      /** @type {HTMLElement | null} */
      picture.closest(".jp-OutputArea-child") ?? picture
    )
  );
  const between = outputs.length > 1 ? outputs[0].nextElementSibling : null;
  if (between instanceof HTMLElement && between.nextElementSibling === outputs[1]) outputs.push(between);
  for (const output of outputs) output.style.display = isHidden ? "none" : "";
}

// css/theme.json
var theme_default = {
  comm_prefixes: ["nccl", "ncclDev", "rccl"],
  groups: [
    { key: "kernel", label: "Kernel", color: "#009e73", cats: ["kernel"] },
    { key: "comm", label: "Communication", color: "#d55e00", cats: [] },
    { key: "memory", label: "Copy, set", color: "#f0e442", cats: ["gpu_memcpy", "gpu_memset"] },
    { key: "runtime", label: "CUDA call", color: "#e69f00", cats: ["cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "mtia_runtime", "xpu_runtime"] },
    { key: "op", label: "CPU op", color: "#56b4e9", cats: ["cpu_op"] },
    { key: "range", label: "Range", color: "#cc79a7", cats: ["user_annotation", "gpu_user_annotation"] },
    { key: "python", label: "Python", color: "#c0cad6", cats: ["python_function"] },
    { key: "sync", label: "Sync, overhead", color: "#0072b2", cats: ["cuda_sync", "overhead"] },
    { key: "other", label: "Other", color: "#6b6f76", cats: [] }
  ],
  light: {
    bg: "#ffffff",
    gutter: "#f6f8fa",
    text: "#1b1f24",
    muted: "#59636e",
    line: "#d0d7de",
    lineSoft: "#eaeef2",
    laneOdd: "#ffffff",
    band: "#0072b2",
    bandAlpha: 0.06,
    accent: "#0b62c4",
    rangeAlpha: 0.14,
    arrow: "#6e3c00",
    dim: "#d9dee4",
    tip: "#1b1f24",
    tipText: "#ffffff",
    field: "#ffffff",
    ink: "#000000",
    shades: [["#ffffff", 0], ["#ffffff", 0.14], ["#ffffff", 0.22], ["#000000", 0.08], ["#ffffff", 0.32]]
  },
  dark: {
    bg: "#111418",
    gutter: "#15191e",
    text: "#e6e9ed",
    muted: "#9aa5b1",
    line: "#343b44",
    lineSoft: "#242a31",
    laneOdd: "#111418",
    band: "#56b4e9",
    bandAlpha: 0.07,
    accent: "#6cb6ff",
    rangeAlpha: 0.18,
    arrow: "#ffd08a",
    dim: "#2b323a",
    tip: "#e6e9ed",
    tipText: "#111418",
    field: "#1b2026",
    ink: "#000000",
    shades: [["#000000", 0.06], ["#000000", 0.16], ["#000000", 0.24], ["#ffffff", 0.1], ["#ffffff", 0.2]]
  }
};

// js/shared/theme.js
var THEME = theme_default;
var NUM_SHADES = THEME.light.shades.length;

// js/memory/plot.js
var BYTE_UNITS2 = [
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"]
];

// js/devices/metrics.js
function formatReading({ unit, column }, value) {
  if (value === void 0 || Number.isNaN(value)) return "-";
  if (column.endsWith("_bytes")) return formatBytes(value);
  return unit === "%" ? formatPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}

// js/devices/moments.js
var MAX_MOMENTS = 240;
var moments = [];
function seenMoments() {
  return moments;
}
function keepMoment(moment) {
  const { t, rows } = moment ?? {};
  if (t === void 0 || !rows || moments.some((seen) => seen.t === t)) return;
  moments.push({ t, rows });
  moments.sort((a, b) => a.t - b.t);
  moments = moments.slice(-MAX_MOMENTS);
}
function forgetMoments() {
  moments = [];
}

// js/devices/gauges.js
var HEARTBEAT_MS = 5e3;
var SPARKLINE = { width: 150, height: 24 };
function createGauges(host, model) {
  const send = createSender(model);
  const parts = buildParts(() => send("stop"));
  host.replaceChildren(parts.root);
  let cards = [];
  const paint = () => {
    hidePictures(model.get("_picture"), true);
    parts.verdict.textContent = verdictText(model.get("_gpus"), model.get("_gauges"));
    cards.forEach(paintCard);
  };
  const build = () => {
    cards = model.get("_gpus").map((gpu) => gaugeCard(gpu, model.get("_gauges")));
    parts.cards.replaceChildren(...cards.map(({ node }) => node));
    paint();
  };
  const showHistory = (message) => {
    if (message?.kind !== "history") return;
    message.moments.forEach(keepMoment);
    paint();
  };
  const describe = () => showAbout(parts, model.get("_about"));
  const leave = () => send("left");
  keepMoment(model.get("_moment"));
  build();
  describe();
  const listeners = [
    ["msg:custom", showHistory],
    ["change:_gpus", build],
    ["change:_moment", paint],
    ["change:_about", describe]
  ];
  for (const [name, listener] of listeners) model.on(name, listener);
  send("history");
  const timer = setInterval(() => model.get("_about").ended || send("here"), HEARTBEAT_MS);
  window.addEventListener("pagehide", leave);
  return () => {
    clearInterval(timer);
    window.removeEventListener("pagehide", leave);
    for (const [name, listener] of listeners) model.off(name, listener);
    leave();
    hidePictures(model.get("_picture"), false);
  };
}
function createSender(model) {
  const view = uniqueId();
  return (kind) => {
    try {
      model.send({ kind, view });
    } catch {
    }
  };
}
function buildParts(onStop) {
  const badge = element("span", { class: "cl-gauge-badge" });
  const verdict = element("strong", {});
  const cards = element("div", { class: "cl-gauge-cards" });
  const notes = element("ul", { class: "cl-gauge-notes" });
  const about = element("span", {});
  const button = element("button", { type: "button", onclick: onStop }, "Stop");
  const root = element(
    "div",
    { class: "cudalens-gauges" },
    element("p", { class: "cl-gauge-verdict" }, badge, verdict),
    cards,
    notes,
    element(
      "p",
      { class: "cl-gauge-about" },
      element("span", {}, element("span", { class: "cl-gauge-dot" }), about),
      button
    )
  );
  return { root, badge, verdict, cards, notes, about, button };
}
function showAbout(parts, { badge = "", about = "", notes = [], ended = "" }) {
  parts.badge.textContent = badge;
  parts.about.textContent = about;
  parts.notes.replaceChildren(...notes.map((note) => element("li", {}, note)));
  parts.root.dataset.state = ended ? "ended" : "live";
  parts.button.hidden = Boolean(ended);
}
function gaugeCard(gpu, gauges) {
  const rows = gauges.map(gaugeRow);
  const slowed = element("p", { class: "cl-gauge-slowed" });
  const head = element(
    "h4",
    { "aria-level": 3 },
    element("span", { class: "cl-gauge-label" }, gpu.label),
    ` ${gpu.name}`
  );
  const node = element("article", { class: "cl-gauge-card" }, head, ...rows.map((row) => row.node), slowed);
  return { gpu, rows, slowed, node };
}
function gaugeRow(gauge, k) {
  const value = element("span", { class: "cl-gauge-value" }, "-");
  const fill = element("div", {});
  const line = svgElement("path", { fill: "none", stroke: "currentColor" });
  const viewBox = `0 0 ${SPARKLINE.width} ${SPARKLINE.height}`;
  const spark = svgElement("svg", { class: "cl-gauge-spark", viewBox, preserveAspectRatio: "none" }, line);
  const node = element(
    "div",
    { class: "cl-gauge" },
    element("span", { class: "cl-gauge-title" }, gauge.title),
    value,
    spark,
    element("div", { class: `cl-gauge-bar cl-gauge-${k}` }, fill)
  );
  return { gauge, node, value, fill, line };
}
function numberOf(reading) {
  return typeof reading === "number" ? reading : null;
}
function paintCard({ gpu, rows, slowed }, number) {
  const moments2 = seenMoments().filter((moment) => moment.rows.length > number).map((moment) => moment.rows[number]);
  const last = moments2.at(-1);
  if (!last) return;
  rows.forEach(({ gauge, value, fill, line }, k) => {
    const known = moments2.map((row) => numberOf(row[k]));
    const full = gpu.full[gauge.column] || Math.max(...known.filter((v) => v !== null), 0) || 1;
    const text = gaugeText(gauge, numberOf(last[k]), gpu);
    if (value.textContent !== text) value.textContent = text;
    value.title = text;
    fill.style.width = `${Math.min(100, Math.max(0, 100 * (numberOf(last[k]) ?? 0) / full)).toFixed(1)}%`;
    line.setAttribute("d", sparkPath(known, full));
  });
  slowed.textContent = last[rows.length] ? `clocks throttled by ${last[rows.length]}` : "";
}
function gaugeText(gauge, value, gpu) {
  if (value === null) return "-";
  const text = formatReading(gauge, value);
  const total = gpu.full[gauge.column];
  return gauge.column === "memory_used_bytes" && total ? `${text} of ${formatBytes(total)}` : text;
}
function sparkPath(values, full) {
  const { width, height } = SPARKLINE;
  const step = width / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, k) => {
    if (value === null) return [];
    const y = height - 1 - (height - 2) * Math.min(1, Math.max(0, value / full));
    return [`${(k * step).toFixed(1)} ${y.toFixed(1)}`];
  });
  return points.length ? `M${points.join("L")}` : "M0 0";
}
function verdictText(gpus, gauges) {
  const rows = seenMoments().at(-1)?.rows ?? [];
  if (!gpus.length || !rows.length) return "No GPU is being read";
  const shares = rows.map((row) => numberOf(row[0]));
  let busiest = 0;
  for (const [k, share2] of shares.entries()) if ((share2 ?? -1) > (shares[busiest] ?? -1)) busiest = k;
  const gpu = gpus[busiest] ?? gpus[0];
  const texts = gauges.slice(0, 4).map((gauge, k) => gaugeText(gauge, numberOf(rows[busiest][k]), gpu));
  const share = shares[busiest];
  if (share !== null) texts[0] = share ? `busy ${texts[0]}` : "idle";
  const known = texts.filter((text) => text !== "-").join(", ") || "no value";
  const others = rows.length > 1 ? `; ${rows.length} GPUs, ${share ? "this one the busiest" : "none busier"}` : "";
  return `${gpu.label}: ${known}${others}`;
}

// js/gauges.js
function initialize({ model }) {
  keepMoment(model.get("_moment"));
  model.on("change:_moment", () => keepMoment(model.get("_moment")));
  model.on("change:_gpus", forgetMoments);
}
function render({ model, el }) {
  return createGauges(el, model);
}
var gauges_default = { initialize, render };
export {
  gauges_default as default
};
