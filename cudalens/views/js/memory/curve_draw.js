// Paint the curve of memory over time: axis, lines, marks and the cursor.

import { contextOf } from "../shared/dom.js";
import { formatBytes, formatDuration } from "../shared/format.js";
import { createBandReader } from "./bands.js";
import { placeOfRow, rowAtPlace, xOfRow } from "./curve_axis.js";

/** @import { Curve, Peak } from "./curve_axis.js" */
/** @import { Curves, HistoryMark } from "./data.js" */

/** @typedef {typeof CURVE_COLORS.light} CurveColors */
/** @typedef {{ low: Float64Array, high: Float64Array }} Envelope By column of pixels. */
/**
 * @typedef {{ context: CanvasRenderingContext2D, colors: CurveColors, ink: string, y: (bytes: number) => number }}
 *   Brush
 */

export const CURVE_HEIGHT = 170;
const AXIS_HEIGHT = 20;
const TOP_MARGIN = 18;
const BOTTOM = CURVE_HEIGHT - AXIS_HEIGHT;
const CURVE_COLORS = {
  light: {
    allocated: "#0b62c4",
    active: "#b35c00",
    reserved: "#6b7683",
    grid: "#e3e8ed",
    paper: "#ffffff",
    mark: "#b3261e",
    cursor: "#1b1f24",
    range: "rgba(11,98,196,.14)",
  },
  dark: {
    allocated: "#6cb6ff",
    active: "#f0a050",
    reserved: "#9aa5b1",
    grid: "#2a3138",
    paper: "#111418",
    mark: "#ff8a80",
    cursor: "#e6e9ed",
    range: "rgba(108,182,255,.2)",
  },
};
/** @type {(keyof Curves)[]} */
export const SERIES = ["reserved", "active", "allocated"];

/**
 * Smallest and largest value of a curve in each column of pixels.
 *
 * @param {Curve} curve
 * @param {Float64Array} values
 * @returns {Envelope}
 */
function envelopeOf(curve, values) {
  const columns = Math.ceil(curve.width);
  const [from, to] = curve.view;
  const out = { low: new Float64Array(columns), high: new Float64Array(columns) };
  let row = rowAtPlace(curve, from);
  for (let x = 0; x < columns; x++) {
    const end = rowAtPlace(curve, from + ((x + 1) * (to - from)) / columns);
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

/** @param {Curve} curve */
export function paintCurves(curve) {
  const { canvas, shown, width, ratio } = curve;
  if (shown === null) return;
  const context = contextOf(canvas);
  const style = getComputedStyle(canvas);
  const envelopes = SERIES.map((name) => envelopeOf(curve, shown.curves[name]));
  let most = 1;
  for (const { high } of envelopes) for (const value of high) if (value > most) most = value;
  curve.most = most;
  const y = (/** @type {number} */ bytes) => BOTTOM - (Math.max(bytes, 0) / (most * 1.04)) * (BOTTOM - TOP_MARGIN);
  /** @type {Brush} */
  const brush = { context, colors: CURVE_COLORS[curve.theme], ink: style.color, y };
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, CURVE_HEIGHT);
  context.font = `11px ${style.fontFamily}`;
  paintBytesAxis(curve, brush, most);
  paintTimeAxis(curve, brush);
  paintBands(curve, brush, shown.curves.allocated);
  SERIES.forEach((name, k) => {
    paintSeries(brush, envelopes[k], brush.colors[name], name === "allocated");
  });
  writeBytesAxis(brush, most);
  for (const mark of shown.marks) paintMark(curve, brush, mark);
  paintPeak(curve, brush, shown.peak);
}

/**
 * The bytes at a height of the last paint.
 *
 * @param {Pick<Curve, "most">} curve
 * @param {number} y px
 */
export function bytesAt({ most }, y) {
  return ((BOTTOM - y) / (BOTTOM - TOP_MARGIN)) * most * 1.04;
}

/**
 * Paints a band for each class, stacked; each column of pixels shows its moment with most allocated memory.
 *
 * @param {Curve} curve
 * @param {Brush} brush
 * @param {Float64Array} allocated
 */
function paintBands(curve, { context, y }, allocated) {
  const { bands, view } = curve;
  if (bands === null) return;
  const columns = Math.ceil(curve.width);
  const { order, css } = bands;
  const read = createBandReader(bands);
  const tops = order.map(() => new Float64Array(columns));
  const [from, to] = view;
  let row = rowAtPlace(curve, from);
  for (let x = 0; x < columns; x++) {
    const end = rowAtPlace(curve, from + ((x + 1) * (to - from)) / columns);
    let most = row;
    for (let k = row + 1; k <= end; k++) if (allocated[k + 1] > allocated[most + 1]) most = k;
    const held = read(most);
    let top = 0;
    for (let k = 0; k < order.length; k++) {
      top += held[order[k]];
      tops[k][x] = top;
    }
    row = end;
  }
  context.globalAlpha = 0.75;
  for (let k = order.length - 1; k >= 0; k--) {
    context.fillStyle = css[order[k]];
    context.beginPath();
    context.moveTo(0, y(k ? tops[k - 1][0] : 0));
    for (let x = 0; x < columns; x++) context.lineTo(x + 0.5, y(tops[k][x]));
    context.lineTo(columns, y(tops[k][columns - 1]));
    context.lineTo(columns, y(k ? tops[k - 1][columns - 1] : 0));
    for (let x = columns - 1; x >= 0; x--) context.lineTo(x + 0.5, y(k ? tops[k - 1][x] : 0));
    context.fill();
  }
  context.globalAlpha = 1;
}

/**
 * @param {Brush} brush
 * @param {Envelope} envelope
 * @param {string} color
 * @param {boolean} isFilled
 */
function paintSeries({ context, y }, { low, high }, color, isFilled) {
  const n = high.length;
  setColor(context, color);
  context.beginPath();
  context.moveTo(0, y(low[0]));
  for (let x = 0; x < n; x++) {
    context.lineTo(x + 0.5, y(high[x]));
    if (high[x] !== low[x]) context.lineTo(x + 0.5, y(low[x]));
  }
  context.lineWidth = isFilled ? 1.5 : 1.25;
  context.stroke();
  if (!isFilled) return;
  context.lineTo(n, y(0));
  context.lineTo(0, y(0));
  context.globalAlpha = 0.14;
  context.fill();
  context.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} color
 */
function setColor(context, color) {
  context.strokeStyle = color;
  context.fillStyle = color;
}

/** @param {number} rough */
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999) ?? 10 * power;
}

/**
 * @param {Curve} curve
 * @param {Brush} brush
 * @param {number} most The largest value that shows.
 */
function paintBytesAxis({ width }, { context, colors, y }, most) {
  context.lineWidth = 1;
  context.strokeStyle = colors.grid;
  context.globalAlpha = 1;
  for (const value of byteTicks(most)) {
    const at = Math.round(y(value)) + 0.5;
    context.beginPath();
    context.moveTo(0, at);
    context.lineTo(width, at);
    context.stroke();
  }
}

/** @param {number} most */
function byteTicks(most) {
  const step = 2 ** Math.floor(Math.log2(most / 2.5));
  return Array.from({ length: Math.floor((most * 1.02) / step) }, (_, k) => (k + 1) * step);
}

/**
 * The labels of the axis, over the curves, on a background that keeps them readable there.
 *
 * @param {Brush} brush
 * @param {number} most The largest value that shows.
 */
function writeBytesAxis({ context, colors, ink, y }, most) {
  context.textBaseline = "bottom";
  for (const value of byteTicks(most)) {
    const at = Math.round(y(value)) - 0.5;
    const text = formatBytes(value);
    context.fillStyle = colors.paper;
    context.fillRect(0, at - 12, context.measureText(text).width + 6, 12);
    context.fillStyle = ink;
    context.fillText(text, 3, at);
  }
}

/**
 * @param {Curve} curve
 * @param {Brush} brush
 */
function paintTimeAxis({ width, view, clock }, { context, ink }) {
  context.fillStyle = ink;
  const step = Math.max(roundStep((view[1] - view[0]) / Math.max(width / 130, 2)), 1);
  context.textBaseline = "top";
  for (let place = Math.ceil(view[0] / step) * step; place <= view[1]; place += step) {
    const x = ((place - view[0]) / (view[1] - view[0])) * width;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, BOTTOM);
    context.lineTo(Math.round(x) + 0.5, BOTTOM + 4);
    context.stroke();
    const time = place ? formatDuration(place) : "0";
    const text = clock === null ? Math.round(place).toLocaleString("en-US") : time;
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), BOTTOM + 6);
  }
}

/**
 * @param {Curve} curve
 * @param {number} row
 */
function isInView(curve, row) {
  const place = placeOfRow(curve, row);
  return place >= curve.view[0] && place <= curve.view[1];
}

/**
 * A failed allocation or a snapshot.
 *
 * @param {Curve} curve
 * @param {Brush} brush
 * @param {HistoryMark} mark
 */
function paintMark(curve, { context, colors, ink }, { row, kind }) {
  if (!isInView(curve, row)) return;
  const x = xOfRow(curve, row);
  const isFailed = kind === "oom";
  setColor(context, isFailed ? colors.mark : ink);
  context.setLineDash(isFailed ? [] : [3, 3]);
  context.beginPath();
  context.moveTo(x, TOP_MARGIN - 2);
  context.lineTo(x, BOTTOM);
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  context.moveTo(x - 5, TOP_MARGIN - 10);
  context.lineTo(x + 5, TOP_MARGIN - 10);
  context.lineTo(x, TOP_MARGIN - 2);
  context.fill();
}

/**
 * @param {Curve} curve
 * @param {Brush} brush
 * @param {Peak} peak
 */
function paintPeak(curve, { context, colors, y }, { row, bytes }) {
  if (!isInView(curve, row)) return;
  const [x, top] = [Math.max(xOfRow(curve, row), 3), y(bytes)];
  context.fillStyle = colors.allocated;
  context.beginPath();
  context.arc(x, top, 4, 0, 7);
  context.fill();
  const text = `peak ${formatBytes(bytes)}`;
  context.font = `600 ${context.font}`;
  const room = context.measureText(text).width + 8;
  context.textBaseline = "bottom";
  context.fillText(text, x + room > curve.width ? x - room : x + 7, TOP_MARGIN - 3); // above all curves
}

/** @param {Curve} curve */
export function paintCursor(curve) {
  const context = contextOf(curve.over);
  const colors = CURVE_COLORS[curve.theme];
  context.setTransform(curve.ratio, 0, 0, curve.ratio, 0, 0);
  context.clearRect(0, 0, curve.width, CURVE_HEIGHT);
  const x = xOfRow(curve, curve.row);
  if (curve.since !== null) {
    const from = xOfRow(curve, curve.since);
    context.fillStyle = colors.range;
    context.fillRect(Math.min(from, x), TOP_MARGIN - 4, Math.abs(x - from), BOTTOM - TOP_MARGIN + 4);
  }
  setColor(context, colors.cursor);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, TOP_MARGIN - 6);
  context.lineTo(x, BOTTOM);
  context.stroke();
  context.beginPath();
  context.arc(x, BOTTOM, 3.5, 0, 7);
  context.fill();
}
