// The memory curve: allocated bytes over time, a trace per device, drawn by Plotly. The peak is marked; dragging
// along the time axis selects that range everywhere.

import { deviceColor } from "../shared/device_colors.js";
import { element } from "../shared/dom.js";
import { formatBytes, formatDuration } from "../shared/format.js";
import { rgbOf } from "../shared/theme.js";
import { curveWithin } from "./thin_curve.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/** @typedef {{ label: string, ts: Float64Array, values: Float64Array }} PlotSeries ns and bytes */
/** @typedef {{ range?: { x: number[] } } | undefined} PlotSelection */
/** @typedef {HTMLElement & { on: (type: string, listener: (event: PlotSelection) => void) => void }} PlotNode */

/**
 * The part of the interface of Plotly that the plot uses.
 *
 * @typedef {object} Plotly
 * @property {(node: HTMLElement, traces: object[], layout: object, config: object) => Promise<PlotNode>} newPlot
 * @property {(node: HTMLElement, traces: object[], layout: object, config: object) => Promise<PlotNode>} react
 * @property {(node: HTMLElement) => void} purge
 * @property {{ resize: (node: HTMLElement) => void }} Plots
 */

/**
 * @typedef {object} PlotOptions
 * @property {Plotly} Plotly
 * @property {ThemeName} theme
 * @property {TimeRange} view
 * @property {(range: TimeRange | null) => void} onRange
 */

/**
 * @typedef {object} MemoryPlot
 * @property {Promise<void>} ready
 * @property {(range: TimeRange | null) => void} setRange
 * @property {(view: TimeRange) => void} setView
 * @property {(name: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => void} destroy
 */

/** @typedef {[scale: number, unit: string]} Unit */

/**
 * @typedef {object} Plot
 * @property {HTMLElement} root
 * @property {PlotSeries[]} series
 * @property {{ ts: number, value: number }[]} peaks
 * @property {Unit} time
 * @property {Unit} bytes
 * @property {ThemeName} theme
 * @property {TimeRange | null} range
 * @property {TimeRange} view
 * @property {number} width px
 */

const PALETTE = {
  light: { range: "#0b62c4", text: "#57606a", grid: "#d9dee4", fill: 0.14 },
  dark: { range: "#6cb6ff", text: "#9aa5b1", grid: "#30363d", fill: 0.2 },
};
/** @type {Unit[]} */
const BYTE_UNITS = [
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
/** @type {Unit[]} */
const TIME_UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"],
];
const CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };

/**
 * Where the plot begins, px: under the timeline's canvas, right of its lane labels.
 *
 * @param {number} width
 */
export function plotGutter(width) {
  return Math.max(56, Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) - 1);
}

/**
 * Draws `series` over the window `view` in `host`.
 *
 * @param {HTMLElement} host
 * @param {PlotSeries[]} series
 * @param {PlotOptions} options
 * @returns {MemoryPlot}
 */
export function createMemoryPlot(host, series, { Plotly, theme, view, onRange }) {
  const root = element("div", { class: "cl-plot" });
  host.replaceChildren(root);
  const peaks = series.map(peakOf);
  const time = unitOf(view[1] - view[0], TIME_UNITS);
  const bytes = unitOf(Math.max(...peaks.map((peak) => peak.value), 1), BYTE_UNITS);
  /** @type {Plot} */
  const plot = { root, series, peaks, time, bytes, theme, range: null, view, width: 0 };
  const ready = Plotly.newPlot(root, traces(plot), layout(plot), CONFIG).then((node) => {
    node.on("plotly_selected", (event) => {
      if (event?.range) onRange(selectedRange(event.range.x, time[0]));
    });
    node.on("plotly_deselect", () => onRange(null));
    node.on("plotly_doubleclick", () => onRange(null));
  });
  const redraw = async () => {
    await ready;
    if (root.isConnected) await Plotly.react(root, traces(plot), layout(plot), CONFIG);
  };
  const set = (/** @type {Partial<Plot>} */ changes) => {
    Object.assign(plot, changes);
    return redraw();
  };
  return {
    ready,
    setRange: (range) => set({ range }),
    setView: (next) => set({ view: next }),
    setTheme: (name) => set({ theme: name }),
    // A width in the layout would be kept, so Plotly reads the size from the page.
    async resize() {
      await redraw();
      if (root.isConnected && root.clientWidth) Plotly.Plots.resize(root);
    },
    destroy: () => ready.then(() => Plotly.purge(root)),
  };
}

/** @param {PlotSeries} series */
function peakOf({ ts, values }) {
  let at = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[at]) at = i;
  return { ts: ts[at], value: values[at] };
}

/**
 * The largest unit that `largest` is at least one of.
 *
 * @param {number} largest
 * @param {Unit[]} units Largest first.
 */
function unitOf(largest, units) {
  return units.find(([scale]) => largest >= scale) ?? units[units.length - 1];
}

/**
 * @param {number[]} x Both ends, in the unit of the axis.
 * @param {number} scale
 * @returns {TimeRange | null}
 */
function selectedRange(x, scale) {
  const [a, b] = x.map((t) => t * scale);
  return a === b ? null : [Math.min(a, b), Math.max(a, b)];
}

/** @param {Plot} plot */
function traces({ series, view, theme, time, bytes }) {
  return series.map((one) => {
    const curve = curveWithin(one, view);
    const color = deviceColor(one.label, theme);
    return {
      type: "scatter",
      mode: "lines",
      name: seriesName(one),
      x: curve.ts.map((t) => t / time[0]),
      y: curve.values.map((v) => v / bytes[0]),
      line: { shape: "hv", width: 1.5, color },
      fill: series.length === 1 ? "tozeroy" : "none",
      fillcolor: `rgba(${rgbOf(color).join(",")},${PALETTE[theme].fill})`,
      text: curve.values.map((v, i) => `${formatBytes(v)} at ${formatDuration(curve.ts[i])}`),
      hoverinfo: "text+name",
    };
  });
}

/**
 * torch counts the CPU's memory from the start of the recording: below zero, more was freed than allocated since then.
 *
 * @param {PlotSeries} series
 */
function seriesName({ label, values }) {
  return values.some((value) => value < 0) ? `${label} (change since the start)` : label;
}

/** @param {Plot} plot */
function layout(plot) {
  const { range, view, time, bytes } = plot;
  // JupyterLab hides the page while it changes its theme: the width is then the one before.
  plot.width = plot.root.clientWidth || plot.width;
  const { text, grid, range: rangeColor } = PALETTE[plot.theme];
  const axis = {
    gridcolor: grid,
    zerolinecolor: grid,
    linecolor: grid,
    tickcolor: grid,
    fixedrange: true,
    separatethousands: true,
  };
  return {
    height: 200,
    margin: { l: plotGutter(plot.width), r: 1, t: 22, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, size: 11, family: "inherit" },
    dragmode: "select",
    selectdirection: "h",
    showlegend: plot.series.length > 1,
    legend: { orientation: "h", x: 0, y: 1.18 },
    hovermode: "closest",
    newselection: { line: { color: text, width: 1 } },
    xaxis: { ...axis, range: view.map((t) => t / time[0]), ticksuffix: ` ${time[1]}` },
    yaxis: { ...axis, rangemode: "tozero", ticksuffix: ` ${bytes[1]}` },
    shapes: range === null ? [] : [rangeShape(range, rangeColor, time[0])],
    annotations: peakNotes(plot),
  };
}

/** @param {Plot} plot */
function peakNotes({ series, peaks, view, theme, time, bytes }) {
  return peaks.flatMap((peak, k) => {
    if (peak.value <= 0) return [];
    const color = deviceColor(series[k].label, theme);
    return {
      x: peak.ts / time[0],
      y: peak.value / bytes[0],
      text: `peak ${formatBytes(peak.value)}`,
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 1,
      ax: peak.ts > (view[0] + view[1]) / 2 ? -44 : 44,
      ay: -14,
      bgcolor: "rgba(0,0,0,0)",
      font: { color, size: 11 },
      arrowcolor: color,
    };
  });
}

/**
 * @param {TimeRange} range
 * @param {string} color
 * @param {number} scale
 */
function rangeShape([t0, t1], color, scale) {
  return {
    type: "rect",
    xref: "x",
    yref: "paper",
    x0: t0 / scale,
    x1: t1 / scale,
    y0: 0,
    y1: 1,
    fillcolor: color,
    opacity: 0.18,
    line: { width: 1, color },
    layer: "below",
  };
}
