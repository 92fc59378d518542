// The gauges beneath the timeline: a row each for utilization, memory, power, temperature and clocks, a line per GPU, on
// the timeline's axis of time. Plain SVG: it follows the timeline without a library.

import { plotGutter } from "../memory/plot.js";
import { uiDuration, uiElement, uiPercent, uiSize } from "../shared/dom.js";

const METRICS_SVG = "http://www.w3.org/2000/svg";
const METRICS_ROW = 44;
const METRICS_GAP = 8;
const METRICS_MAX_POINTS = 2000;
const METRICS_LINES = {
  light: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b", "#b02f78", "#5a7a0a", "#a3301f", "#4f6673"],
  dark: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0", "#f08cc4", "#b5d35a", "#ff9a8a", "#a9bfca"],
};

export function metricText({ unit, column }, value) {
  if (value === undefined || Number.isNaN(value)) return "-";
  if (column.endsWith("_bytes")) return uiSize(value);
  return unit === "%" ? uiPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}

function metricsNode(tag, attributes = {}, ...children) {
  const node = document.createElementNS(METRICS_SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}

// Index of the last reading at or before time t, -1 where there is none.
export function readingAt(ts, t) {
  let [low, high] = [0, ts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ts[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The path of one line: at most METRICS_MAX_POINTS points of those in the window, the highest of each stretch.
function metricsPath({ ts, values }, column, [t0, t1], x, y) {
  const value = values[column];
  const from = Math.max(readingAt(ts, t0), 0);
  const to = Math.min(readingAt(ts, t1) + 2, ts.length);
  const stride = Math.max(1, Math.ceil((to - from) / METRICS_MAX_POINTS));
  let path = "";
  for (let i = from; i < to; i += stride) {
    let best = i;
    for (let k = i; k < Math.min(i + stride, to); k++) if (value[k] > value[best] || Number.isNaN(value[best])) best = k;
    if (Number.isNaN(value[best])) continue;
    path += `${path ? "L" : "M"}${x(ts[best]).toFixed(1)} ${y(value[best]).toFixed(1)}`;
  }
  return path;
}

// Draws `devices` (as decodePayload gives them) over the window `view` in `host`; `gauges` come from the payload's header.
// Returns {setView(window), setTheme(theme), resize(), destroy()}.
export function createMetrics(host, devices, gauges, { theme, view }) {
  const shown = { theme, view, width: 0 };
  const known = gauges.filter(({ column }) => devices.some(({ values }) => values[column].some((v) => !Number.isNaN(v))));
  const largest = known.map(({ column, full }) => full ?? Math.max(...devices.map(({ values }) =>
    values[column].reduce((most, v) => (v > most ? v : most), 0)), 1e-9));
  const legend = uiElement("p", { class: "cl-metrics-legend" });
  const plot = metricsNode("svg", { class: "cl-metrics-plot", role: "img", "aria-label": "Readings of the GPUs over time" });
  const tip = uiElement("p", { class: "cl-metrics-tip cl-hint", "aria-live": "off" });
  host.replaceChildren(legend, plot, tip);
  const height = known.length * (METRICS_ROW + METRICS_GAP);
  const cursor = metricsNode("path", { class: "cl-metrics-cursor", fill: "none" });

  const scale = () => {
    // JupyterLab hides the page while it changes its theme: the width is then the one before.
    const width = (shown.width = Math.max(host.clientWidth || shown.width, 200));
    const gutter = plotGutter(width);
    const span = shown.view[1] - shown.view[0];
    return { width, gutter, plot: width - gutter - 1, x: (t) => gutter + ((t - shown.view[0]) / span) * (width - gutter - 1) };
  };

  function draw() {
    const { width, gutter, plot: inner, x } = scale();
    const lines = METRICS_LINES[shown.theme];
    legend.replaceChildren(...(devices.length > 1 ? devices.map(({ label }, k) =>
      uiElement("span", { style: `color:${lines[k % lines.length]}` }, label)) : []));
    const clip = metricsNode("clipPath", { id: `cl-metrics-${metricsId}` },
      metricsNode("rect", { x: gutter, y: 0, width: inner, height }));
    const rows = known.map((gauge, row) => {
      const top = row * (METRICS_ROW + METRICS_GAP);
      const y = (value) => top + METRICS_ROW - (METRICS_ROW - 3) * Math.min(value / largest[row], 1);
      const peak = Math.max(...devices.map(({ values }) => values[gauge.column].reduce((m, v) => (v > m ? v : m), 0)));
      return metricsNode("g", {},
        metricsNode("text", { x: 0, y: top + 16 }, gauge.title),
        metricsNode("text", { x: 0, y: top + 31, class: "cl-metrics-muted" }, `up to ${metricText(gauge, peak)}`),
        metricsNode("path", { d: `M${gutter} ${top + METRICS_ROW}H${width - 1}`, class: "cl-metrics-base" }),
        metricsNode("g", { "clip-path": `url(#cl-metrics-${metricsId})` }, ...devices.map((device, k) =>
          metricsNode("path", { d: metricsPath(device, gauge.column, shown.view, x, y), fill: "none",
            stroke: lines[k % lines.length], "stroke-width": 1.4 }))));
    });
    plot.setAttribute("width", width);
    plot.setAttribute("height", height);
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.replaceChildren(clip, ...rows, cursor);
  }

  const metricsId = `${Math.random().toString(36).slice(2)}`;

  function point(event) {
    const { gutter, plot: inner } = scale();
    const at = event.clientX - plot.getBoundingClientRect().left;
    if (at < gutter || at > gutter + inner) return leave();
    const t = shown.view[0] + ((at - gutter) / inner) * (shown.view[1] - shown.view[0]);
    cursor.setAttribute("d", `M${at.toFixed(1)} 0V${height}`);
    tip.textContent = [uiDuration(t), ...devices.map((device) => deviceAt(device, t))].filter(Boolean).join(" · ");
    return undefined;
  }

  function deviceAt({ label, ts, values, slowed, reasons }, t) {
    const i = readingAt(ts, t);
    if (i < 0) return "";
    const texts = known.map((gauge) => metricText(gauge, values[gauge.column][i])).join(", ");
    return `${devices.length > 1 ? `${label}: ` : ""}${texts}${slowed[i] ? `, held down by ${reasons[slowed[i]]}` : ""}`;
  }

  function leave() {
    cursor.removeAttribute("d");
    tip.textContent = "";
  }

  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", leave);
  draw();
  return {
    setView(next) {
      shown.view = next;
      draw();
    },
    setTheme(name) {
      shown.theme = name;
      draw();
    },
    resize: draw,
    destroy: () => host.replaceChildren(),
  };
}
