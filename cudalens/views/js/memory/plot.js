// The memory curve: allocated bytes over time, a trace per device, drawn by Plotly. The peak is marked; dragging
// along the time axis selects that range everywhere.

import { uiDuration, uiElement, uiSize } from "../shared/dom.js";

const MAX_POINTS = 4000;
const MEMORY_PALETTE = {
  light: { lines: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b"], text: "#57606a", grid: "#d9dee4", fill: 0.14 },
  dark: { lines: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0"], text: "#9aa5b1", grid: "#30363d", fill: 0.2 },
};

// At most MAX_POINTS points of a curve: the smallest and the largest of each stretch, in order, so that no peak is lost.
export function thinCurve(ts, values) {
  const n = ts.length;
  if (n <= MAX_POINTS) return { ts: Array.from(ts), values: Array.from(values) };
  const keep = [0];
  const stretch = (n - 2) / (MAX_POINTS / 2 - 1);
  for (let k = 0; k * stretch < n - 2; k++) {
    const [from, to] = [1 + Math.floor(k * stretch), Math.min(n - 1, 1 + Math.floor((k + 1) * stretch))];
    let [low, high] = [from, from];
    for (let i = from; i < to; i++) {
      if (values[i] < values[low]) low = i;
      if (values[i] > values[high]) high = i;
    }
    if (from < to) keep.push(Math.min(low, high), ...(low === high ? [] : [Math.max(low, high)]));
  }
  keep.push(n - 1);
  return { ts: keep.map((i) => ts[i]), values: keep.map((i) => values[i]) };
}

// The plot begins below the timeline's canvas, right of its lane labels.
export function plotGutter(width) {
  return Math.max(56, Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) - 1);
}

function peakOf(series) {
  let at = 0;
  for (let i = 1; i < series.values.length; i++) if (series.values[i] > series.values[at]) at = i;
  return { ts: series.ts[at], value: series.values[at] };
}

// Axis ticks in one unit of bytes and one of time.
function scaleOf(largest, steps) {
  return steps.find(([scale]) => largest >= scale) ?? steps.at(-1);
}

const BYTE_STEPS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
const TIME_STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];

// The part of a curve that shows in the window [t0, t1], with one point on either side.
function curveWithin({ ts, values }, [t0, t1]) {
  let [from, to] = [0, ts.length];
  while (from + 1 < ts.length && ts[from + 1] < t0) from += 1;
  while (to - 2 > from && ts[to - 2] > t1) to -= 1;
  return thinCurve(ts.subarray(from, to), values.subarray(from, to));
}

// Draws `series` ([{label, ts, values}], ns and bytes) over the window `view` ([t0, t1], ns) in `host`.
// Returns {ready, setRange(range), setView(window), setTheme(theme), resize(), destroy()}.
export function createMemory(host, series, { Plotly, theme, view, onRange }) {
  const [timeScale, timeUnit] = scaleOf(view[1] - view[0], TIME_STEPS);
  const peaks = series.map(peakOf);
  const [byteScale, byteUnit] = scaleOf(Math.max(...peaks.map((peak) => peak.value), 1), BYTE_STEPS);
  const root = uiElement("div", { class: "cl-plot" });
  host.replaceChildren(root);
  const shown = { theme, range: null, view, width: 0 };

  const traces = () =>
    series.map((one, k) => {
      const curve = curveWithin(one, shown.view);
      const color = MEMORY_PALETTE[shown.theme].lines[k % 4];
      return {
        type: "scatter", mode: "lines", name: one.label, x: curve.ts.map((t) => t / timeScale),
        y: curve.values.map((v) => v / byteScale), line: { shape: "hv", width: 1.5, color },
        fill: series.length === 1 ? "tozeroy" : "none", fillcolor: withAlpha(color, MEMORY_PALETTE[shown.theme].fill),
        text: curve.values.map((v, i) => `${uiSize(v)} at ${uiDuration(curve.ts[i])}`), hoverinfo: "text+name",
      };
    });

  const layout = () => {
    // JupyterLab hides the page while it changes its theme: the width is then the one before.
    shown.width = root.clientWidth || shown.width;
    const { text, grid, lines } = MEMORY_PALETTE[shown.theme];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickcolor: grid, fixedrange: true };
    return {
      height: 200, margin: { l: plotGutter(shown.width), r: 1, t: 22, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, size: 11, family: "inherit" }, dragmode: "select", selectdirection: "h",
      showlegend: series.length > 1, legend: { orientation: "h", x: 0, y: 1.18 }, hovermode: "closest",
      newselection: { line: { color: text, width: 1 } },
      xaxis: { ...axis, range: shown.view.map((t) => t / timeScale), ticksuffix: ` ${timeUnit}`, separatethousands: true },
      yaxis: { ...axis, rangemode: "tozero", ticksuffix: ` ${byteUnit}`, separatethousands: true },
      shapes: shown.range === null ? [] : [rangeShape(shown.range, lines[0], timeScale)],
      annotations: peaks.map((peak, k) => ({
        x: peak.ts / timeScale, y: peak.value / byteScale, text: `peak ${uiSize(peak.value)}`, showarrow: true,
        arrowhead: 0, arrowwidth: 1, ax: peak.ts > (shown.view[0] + shown.view[1]) / 2 ? -44 : 44, ay: -10, bgcolor: "rgba(0,0,0,0)",
        font: { color: lines[k % 4], size: 11 }, arrowcolor: lines[k % 4],
      })),
    };
  };

  const config = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };
  const ready = Plotly.newPlot(root, traces(), layout(), config).then(() => {
    root.on("plotly_selected", (event) => {
      if (!event?.range) return;
      const [a, b] = event.range.x.map((t) => t * timeScale);
      onRange(a === b ? null : [Math.min(a, b), Math.max(a, b)]);
    });
    root.on("plotly_deselect", () => onRange(null));
    root.on("plotly_doubleclick", () => onRange(null));
  });
  const redraw = () => ready.then(() => root.isConnected && Plotly.react(root, traces(), layout(), config));

  return {
    ready,
    setRange(range) {
      shown.range = range;
      return redraw();
    },
    setView(next) {
      shown.view = next;
      return redraw();
    },
    setTheme(name) {
      shown.theme = name;
      return redraw();
    },
    // A width in the layout would be kept; the size is taken anew from the page.
    resize: () => redraw().then(() => root.isConnected && root.clientWidth && Plotly.Plots.resize(root)),
    destroy: () => ready.then(() => Plotly.purge(root)),
  };
}

function withAlpha(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}

function rangeShape([t0, t1], color, timeScale) {
  return {
    type: "rect", xref: "x", yref: "paper", x0: t0 / timeScale, x1: t1 / timeScale, y0: 0, y1: 1,
    fillcolor: color, opacity: 0.18, line: { width: 1, color }, layer: "below",
  };
}
