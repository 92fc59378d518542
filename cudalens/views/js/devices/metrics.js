// The gauges below the timeline: a row each for utilization, memory, power, temperature and clocks, a line per GPU, on
// the timeline's axis of time. Plain SVG: it follows the timeline without a library.

import { plotGutter } from "../memory/plot.js";
import { deviceColor } from "../shared/device_colors.js";
import { element, svgElement } from "../shared/dom.js";
import { formatBytes, formatDuration, formatPercent } from "../shared/format.js";

/** @import { DeviceReadings, Gauge } from "../payload/payload.js" */
/** @import { ThemeName } from "../shared/theme.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/**
 * @typedef {object} MetricsView
 * @property {(view: TimeRange) => void} setView
 * @property {(name: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => void} destroy
 */

/**
 * @typedef {object} Metrics
 * @property {HTMLElement} host
 * @property {DeviceReadings[]} devices
 * @property {{ gauge: Gauge, largest: number }[]} rows Gauges with a known value, and the value at the top of each.
 * @property {string} id
 * @property {number} height px
 * @property {HTMLElement} legend
 * @property {SVGSVGElement} plot
 * @property {SVGPathElement} cursor
 * @property {HTMLElement} tip
 * @property {ThemeName} theme
 * @property {TimeRange} view
 * @property {number} width px
 */

/** @typedef {{ width: number, gutter: number, inner: number, x: (t: number) => number }} Scale px */

const ROW_HEIGHT = 44;
const ROW_GAP = 8;
const MAX_POINTS = 2000;
/**
 * @param {Pick<Gauge, "unit" | "column">} gauge
 * @param {number | undefined} value NaN or undefined where it is not known.
 */
export function formatReading({ unit, column }, value) {
  if (value === undefined || Number.isNaN(value)) return "-";
  if (column.endsWith("_bytes")) return formatBytes(value);
  return unit === "%" ? formatPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}

/**
 * Index of the last reading at or before time t, -1 where there is none.
 *
 * @param {Float64Array} ts
 * @param {number} t
 */
function readingAt(ts, t) {
  let [low, high] = [0, ts.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ts[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * The largest value; `least` where all are smaller or unknown.
 *
 * @param {Float64Array} values
 * @param {number} [least]
 */
function largestOf(values, least = 0) {
  return values.reduce((most, value) => (value > most ? value : most), least);
}

/**
 * Draws `devices` over the window `view` in `host`.
 *
 * @param {HTMLElement} host
 * @param {DeviceReadings[]} devices
 * @param {Gauge[]} gauges
 * @param {{ theme: ThemeName, view: TimeRange }} options
 * @returns {MetricsView}
 */
export function createMetrics(host, devices, gauges, { theme, view }) {
  const known = gauges.filter(({ column }) =>
    devices.some(({ values }) => values[column].some((v) => !Number.isNaN(v))),
  );
  const rows = known.map((gauge) => ({
    gauge,
    largest: gauge.full ?? Math.max(...devices.map(({ values }) => largestOf(values[gauge.column])), 1e-9),
  }));
  const legend = element("p", { class: "cl-metrics-legend" });
  const attributes = { class: "cl-metrics-plot", role: "img", "aria-label": "Readings of the GPUs over time" };
  const plot = svgElement("svg", attributes);
  const tip = element("p", { class: "cl-metrics-tip cl-hint", "aria-live": "off" });
  const cursor = svgElement("path", { class: "cl-metrics-cursor", fill: "none" });
  host.replaceChildren(legend, plot, tip);
  const id = `cl-metrics-${Math.random().toString(36).slice(2)}`;
  const height = rows.length * (ROW_HEIGHT + ROW_GAP);
  /** @type {Metrics} */
  const metrics = { host, devices, rows, id, height, legend, plot, cursor, tip, theme, view, width: 0 };
  plot.addEventListener("pointermove", (event) => point(metrics, event));
  plot.addEventListener("pointerleave", () => leave(metrics));
  draw(metrics);
  return {
    setView(next) {
      metrics.view = next;
      draw(metrics);
    },
    setTheme(name) {
      metrics.theme = name;
      draw(metrics);
    },
    resize: () => draw(metrics),
    destroy: () => host.replaceChildren(),
  };
}

/**
 * @param {Metrics} metrics
 * @returns {Scale}
 */
function scaleOf(metrics) {
  // JupyterLab hides the page while it changes its theme: the width is then the one before.
  const width = Math.max(metrics.host.clientWidth || metrics.width, 200);
  metrics.width = width;
  const gutter = plotGutter(width);
  const inner = width - gutter - 1;
  const [t0, t1] = metrics.view;
  return { width, gutter, inner, x: (t) => gutter + ((t - t0) / (t1 - t0)) * inner };
}

/** @param {Metrics} metrics */
function draw(metrics) {
  const { devices, height, id, legend, plot } = metrics;
  const scale = scaleOf(metrics);
  const labels = devices.length > 1 ? devices.map(({ label }) => label) : [];
  legend.replaceChildren(
    ...labels.map((label) => element("span", { style: `color:${deviceColor(label, metrics.theme)}` }, label)),
  );
  const area = svgElement("rect", { x: scale.gutter, y: 0, width: scale.inner, height });
  const rows = metrics.rows.map((_, row) => gaugeRow(metrics, row, scale));
  plot.setAttribute("width", String(scale.width));
  plot.setAttribute("height", String(height));
  plot.setAttribute("viewBox", `0 0 ${scale.width} ${height}`);
  plot.replaceChildren(svgElement("clipPath", { id }, area), ...rows, metrics.cursor);
}

/**
 * @param {Metrics} metrics
 * @param {number} row
 * @param {Scale} scale
 */
function gaugeRow({ devices, rows, id, theme, view }, row, { width, gutter, x }) {
  const { gauge, largest } = rows[row];
  const top = row * (ROW_HEIGHT + ROW_GAP);
  const y = (/** @type {number} */ value) => top + ROW_HEIGHT - (ROW_HEIGHT - 3) * Math.min(value / largest, 1);
  const peak = Math.max(...devices.map(({ values }) => largestOf(values[gauge.column])));
  const paths = devices.map(({ label, ts, values }) =>
    svgElement("path", {
      d: linePath(ts, values[gauge.column], view, x, y),
      fill: "none",
      stroke: deviceColor(label, theme),
      "stroke-width": 1.4,
    }),
  );
  return svgElement(
    "g",
    {},
    svgElement("text", { x: 0, y: top + 16 }, gauge.title),
    svgElement("text", { x: 0, y: top + 31, class: "cl-metrics-muted" }, `up to ${formatReading(gauge, peak)}`),
    svgElement("path", { d: `M${gutter} ${top + ROW_HEIGHT}H${width - 1}`, class: "cl-metrics-base" }),
    svgElement("g", { "clip-path": `url(#${id})` }, ...paths),
  );
}

/**
 * The path of one line: at most MAX_POINTS points of those in the window, the highest of each stretch.
 *
 * @param {Float64Array} ts
 * @param {Float64Array} values
 * @param {TimeRange} view
 * @param {(t: number) => number} x
 * @param {(value: number) => number} y
 */
function linePath(ts, values, [t0, t1], x, y) {
  const from = Math.max(readingAt(ts, t0), 0);
  const to = Math.min(readingAt(ts, t1) + 2, ts.length);
  const stride = Math.max(1, Math.ceil((to - from) / MAX_POINTS));
  let path = "";
  for (let i = from; i < to; i += stride) {
    let best = i;
    for (let k = i; k < Math.min(i + stride, to); k++) {
      if (values[k] > values[best] || Number.isNaN(values[best])) best = k;
    }
    if (Number.isNaN(values[best])) continue;
    path += `${path ? "L" : "M"}${x(ts[best]).toFixed(1)} ${y(values[best]).toFixed(1)}`;
  }
  return path;
}

/**
 * Shows the readings at the pointer.
 *
 * @param {Metrics} metrics
 * @param {PointerEvent} event
 */
function point(metrics, event) {
  const { gutter, inner } = scaleOf(metrics);
  const at = event.clientX - metrics.plot.getBoundingClientRect().left;
  if (at < gutter || at > gutter + inner) {
    leave(metrics);
    return;
  }
  const [t0, t1] = metrics.view;
  const t = t0 + ((at - gutter) / inner) * (t1 - t0);
  metrics.cursor.setAttribute("d", `M${at.toFixed(1)} 0V${metrics.height}`);
  const texts = metrics.devices.map((device) => readingsText(metrics, device, t));
  metrics.tip.textContent = [formatDuration(t), ...texts].filter(Boolean).join(" · ");
}

/**
 * @param {Metrics} metrics
 * @param {DeviceReadings} device
 * @param {number} t
 */
function readingsText({ devices, rows }, { label, ts, values, slowed, reasons }, t) {
  const i = readingAt(ts, t);
  if (i < 0) return "";
  const texts = rows.map(({ gauge }) => formatReading(gauge, values[gauge.column][i])).join(", ");
  return `${devices.length > 1 ? `${label}: ` : ""}${texts}${slowed[i] ? `, throttled by ${reasons[slowed[i]]}` : ""}`;
}

/** @param {Metrics} metrics */
function leave({ cursor, tip }) {
  cursor.removeAttribute("d");
  tip.textContent = "";
}
