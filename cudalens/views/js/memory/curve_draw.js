// Paints the curve of memory over time: axis, lines, marks and the cursor; and where its rows stand.

import { uiDuration, uiSize } from "../shared/dom.js";

export const MM_CURVE_HEIGHT = 170;
const MM_AXIS = 20;
const MM_TOP = 18;
const MM_LINES = {
  light: { allocated: "#0b62c4", active: "#b35c00", reserved: "#6b7683", grid: "#e3e8ed", mark: "#b3261e", cursor: "#1b1f24", range: "rgba(11,98,196,.14)" },
  dark: { allocated: "#6cb6ff", active: "#f0a050", reserved: "#9aa5b1", grid: "#2a3138", mark: "#ff8a80", cursor: "#e6e9ed", range: "rgba(108,182,255,.2)" },
};
export const MM_SERIES = ["reserved", "active", "allocated"];

// Place of a row on the axis, and the last row at or before a place.
export const mmPlace = (curve, row) => (curve.isTime ? (row < 0 ? 0 : curve.data.clock[row]) : row + 1);

export function mmRowAt(curve, place) {
  const { numRows } = curve.data;
  return curve.isTime ? mmRowAtTime(curve.data, place) : Math.min(Math.max(Math.floor(place) - 1, -1), numRows - 1);
}

// The last row at or before a time, ns from the first; -1 where there is none.
export function mmRowAtTime({ clock, numRows }, place) {
  let [low, high] = [0, numRows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (clock[middle] <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

export function mmWhole(curve) {
  const { clock, numRows } = curve.data;
  const end = curve.isTime ? clock[numRows - 1] ?? 0 : numRows;
  return [0, Math.max(end * 1.005, 1)];
}

export const mmX = (curve, row) => ((mmPlace(curve, row) - curve.view[0]) / (curve.view[1] - curve.view[0])) * curve.width;

// Least, most and last value of a curve in each column of pixels.
export function mmEnvelope(curve, values) {
  const columns = Math.ceil(curve.width);
  const [from, to] = curve.view;
  const out = { low: new Float64Array(columns), high: new Float64Array(columns) };
  let row = mmRowAt(curve, from);
  for (let x = 0; x < columns; x++) {
    const end = mmRowAt(curve, from + ((x + 1) * (to - from)) / columns);
    let [low, high] = [values[row + 1], values[row + 1]];
    for (let k = row + 1; k <= end; k++) {
      const value = values[k + 1];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    out.low[x] = low;
    out.high[x] = high;
    row = end;
  }
  return out;
}

export function mmPaintCurves(curve) {
  const { curves, width, ratio, theme } = curve;
  const context = curve.canvas.getContext("2d");
  const colors = MM_LINES[theme];
  const style = getComputedStyle(curve.canvas);
  curve.envelopes = Object.fromEntries(MM_SERIES.map((name) => [name, mmEnvelope(curve, curves[name])]));
  let most = 1;
  for (const { high } of Object.values(curve.envelopes)) for (const value of high) if (value > most) most = value;
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  curve.y = (value) => bottom - (Math.max(value, 0) / (most * 1.04)) * (bottom - MM_TOP);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, MM_CURVE_HEIGHT);
  context.font = `11px ${style.fontFamily}`;
  mmPaintAxis(curve, context, style.color, colors, most);
  for (const name of MM_SERIES) mmPaintSeries(curve, context, curve.envelopes[name], colors[name], name === "allocated");
  mmPaintMarks(curve, context, colors, style.color);
}

function mmPaintSeries(curve, context, { low, high }, color, isFilled) {
  const n = high.length;
  context.strokeStyle = context.fillStyle = color;
  context.beginPath();
  context.moveTo(0, curve.y(low[0]));
  for (let x = 0; x < n; x++) {
    context.lineTo(x + 0.5, curve.y(high[x]));
    if (high[x] !== low[x]) context.lineTo(x + 0.5, curve.y(low[x]));
  }
  context.lineWidth = isFilled ? 1.5 : 1.25;
  context.stroke();
  if (!isFilled) return;
  context.lineTo(n, curve.y(0));
  context.lineTo(0, curve.y(0));
  context.globalAlpha = 0.14;
  context.fill();
  context.globalAlpha = 1;
}

function mmStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough * 0.999);
}

function mmPaintAxis(curve, context, ink, colors, most) {
  const { width, view } = curve;
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  context.lineWidth = 1;
  context.strokeStyle = colors.grid;
  context.fillStyle = ink;
  context.globalAlpha = 1;
  const lines = 2 ** Math.floor(Math.log2(most / 2.5));
  context.textBaseline = "bottom";
  for (let value = lines; value <= most * 1.02; value += lines) {
    const y = Math.round(curve.y(value)) + 0.5;
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
    context.fillText(uiSize(value), 2, y - 1);
  }
  const step = Math.max(mmStep((view[1] - view[0]) / Math.max(width / 130, 2)), curve.isTime ? 1 : 1);
  context.textBaseline = "top";
  for (let place = Math.ceil(view[0] / step) * step; place <= view[1]; place += step) {
    const x = ((place - view[0]) / (view[1] - view[0])) * width;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, bottom);
    context.lineTo(Math.round(x) + 0.5, bottom + 4);
    context.stroke();
    const text = curve.isTime ? (place ? uiDuration(place) : "0") : Math.round(place).toLocaleString("en-US");
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), bottom + 6);
  }
}

// The peak, failed allocations and snapshots.
function mmPaintMarks(curve, context, colors, ink) {
  const { peak, width } = curve;
  const { view } = curve;
  const isIn = (row) => mmPlace(curve, row) >= view[0] && mmPlace(curve, row) <= view[1];
  for (const mark of curve.marks) {
    if (!isIn(mark.row)) continue;
    const x = mmX(curve, mark.row);
    const isFailed = mark.kind === "oom";
    context.strokeStyle = context.fillStyle = isFailed ? colors.mark : ink;
    context.setLineDash(isFailed ? [] : [3, 3]);
    context.beginPath();
    context.moveTo(x, MM_TOP - 2);
    context.lineTo(x, MM_CURVE_HEIGHT - MM_AXIS);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x - 5, MM_TOP - 10);
    context.lineTo(x + 5, MM_TOP - 10);
    context.lineTo(x, MM_TOP - 2);
    context.fill();
  }
  if (!isIn(peak.row)) return;
  const [x, y] = [Math.max(mmX(curve, peak.row), 3), curve.y(peak.bytes)];
  context.fillStyle = colors.allocated;
  context.beginPath();
  context.arc(x, y, 4, 0, 7);
  context.fill();
  const text = `peak ${uiSize(peak.bytes)}`;
  context.font = context.font.replace(/^/, "600 ");
  const room = context.measureText(text).width + 8;
  context.textBaseline = "bottom";
  context.fillText(text, x + room > width ? x - room : x + 7, Math.max(y - 3, 12));
}

export function mmPaintCursor(curve) {
  const context = curve.over.getContext("2d");
  const colors = MM_LINES[curve.theme];
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  context.setTransform(curve.ratio, 0, 0, curve.ratio, 0, 0);
  context.clearRect(0, 0, curve.width, MM_CURVE_HEIGHT);
  const x = mmX(curve, curve.row);
  if (curve.since !== null) {
    const from = mmX(curve, curve.since);
    context.fillStyle = colors.range;
    context.fillRect(Math.min(from, x), MM_TOP - 4, Math.abs(x - from), bottom - MM_TOP + 4);
  }
  context.strokeStyle = context.fillStyle = colors.cursor;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, MM_TOP - 6);
  context.lineTo(x, bottom);
  context.stroke();
  context.beginPath();
  context.arc(x, bottom, 3.5, 0, 7);
  context.fill();
}
