// What a device had allocated, active and reserved over the whole history, at the level of detail of the screen: each
// column of pixels shows the least and the most of all actions in it. A click chooses a moment, dragging a stretch of time.

import { uiDuration, uiElement, uiSize } from "./ui.js";

const MM_CURVE_HEIGHT = 170;
const MM_AXIS = 20;
const MM_TOP = 18;
const MM_LINES = {
  light: { allocated: "#0b62c4", active: "#b35c00", reserved: "#6b7683", grid: "#e3e8ed", mark: "#b3261e", cursor: "#1b1f24", range: "rgba(11,98,196,.14)" },
  dark: { allocated: "#6cb6ff", active: "#f0a050", reserved: "#9aa5b1", grid: "#2a3138", mark: "#ff8a80", cursor: "#e6e9ed", range: "rgba(108,182,255,.2)" },
};
const MM_SERIES = ["reserved", "active", "allocated"];

/**
 * Builds the curve in `host`.
 *
 * @param {object} options {theme, onMoment(row, since)}: since is the row that a dragged stretch begins with, or null
 * @returns {object} show(curves, peak, marks), setMoment(row, since), setAxis, zoomTo, setTheme, resize, stats, destroy.
 */
export function mmCreateCurve(host, data, options) {
  const canvas = uiElement("canvas", { class: "mm-curve-canvas", tabindex: 0, role: "slider", "aria-label": "Moment of the history",
    "aria-valuemin": -1, "aria-valuemax": data.numRows - 1, "aria-valuenow": data.numRows - 1 });
  const over = uiElement("canvas", { class: "mm-over", "aria-hidden": "true" });
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  host.replaceChildren(uiElement("div", { class: "mm-curve-stage" }, canvas, over), tip);
  const curve = { data, options, host, canvas, over, tip, theme: options.theme, isTime: data.clock !== null, view: null,
    row: data.numRows - 1, since: null, pointer: null, pending: 0, script: [] };
  curve.view = mmWhole(curve);
  mmListenCurve(curve);
  return {
    show(curves, peak, marks) {
      Object.assign(curve, { curves, peak, marks, envelopes: null });
      mmSizeCurve(curve);
    },
    setMoment(row, since) {
      Object.assign(curve, { row, since });
      canvas.setAttribute("aria-valuenow", row);
      canvas.setAttribute("aria-valuetext", mmMomentText(data, row));
      if (curve.curves) mmPaintCursor(curve);
    },
    setAxis(isTime) {
      curve.isTime = isTime && data.clock !== null;
      mmViewTo(curve, mmWhole(curve));
    },
    zoomTo: (view) => mmViewTo(curve, view ?? mmWhole(curve)),
    getView: () => curve.view,
    xOf: (row) => mmX(curve, row),
    setTheme(theme) {
      curve.theme = theme;
      if (curve.curves) mmRepaint(curve);
    },
    resize: () => curve.curves && host.clientWidth !== curve.width && mmSizeCurve(curve),
    stats: () => ({ script: curve.script }),
    destroy() {
      cancelAnimationFrame(curve.pending);
      host.replaceChildren();
    },
  };
}

export function mmMomentText(data, row) {
  if (row < 0) return "before the first action";
  const action = `action ${(row + 1).toLocaleString("en-US")} of ${data.numRows.toLocaleString("en-US")}`;
  return data.clock ? `${uiDuration(data.clock[row])}, ${action}` : action;
}

// Place of a row on the axis, and the last row at or before a place.
const mmPlace = (curve, row) => (curve.isTime ? (row < 0 ? 0 : curve.data.clock[row]) : row + 1);

function mmRowAt(curve, place) {
  const { clock, numRows } = curve.data;
  if (!curve.isTime) return Math.min(Math.max(Math.floor(place) - 1, -1), numRows - 1);
  let [low, high] = [0, numRows];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (clock[middle] <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

function mmWhole(curve) {
  const { clock, numRows } = curve.data;
  const end = curve.isTime ? clock[numRows - 1] ?? 0 : numRows;
  return [0, Math.max(end * 1.005, 1)];
}

const mmX = (curve, row) => ((mmPlace(curve, row) - curve.view[0]) / (curve.view[1] - curve.view[0])) * curve.width;

function mmSizeCurve(curve) {
  curve.width = Math.max(curve.host.clientWidth || curve.width || 0, 160);
  curve.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [curve.canvas, curve.over]) {
    canvas.width = Math.floor(curve.width * curve.ratio);
    canvas.height = Math.floor(MM_CURVE_HEIGHT * curve.ratio);
    canvas.style.width = `${curve.width}px`;
    canvas.style.height = `${MM_CURVE_HEIGHT}px`;
  }
  mmRepaint(curve);
}

function mmViewTo(curve, [from, to]) {
  const [, end] = mmWhole(curve);
  const span = Math.min(Math.max(to - from, curve.isTime ? 100 : 4), end);
  const begin = Math.min(Math.max(from, 0), end - span);
  curve.view = [begin, begin + span];
  mmRepaint(curve);
}

function mmRepaint(curve) {
  if (curve.pending) return;
  curve.pending = requestAnimationFrame(() => {
    curve.pending = 0;
    if (!curve.curves) return;
    const began = performance.now();
    mmPaintCurves(curve);
    mmPaintCursor(curve);
    curve.script.push(performance.now() - began);
  });
}

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

function mmPaintCurves(curve) {
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

function mmPaintCursor(curve) {
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

function mmListenCurve(curve) {
  const { canvas } = curve;
  const rowOf = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return mmRowAt(curve, curve.view[0] + (x / curve.width) * (curve.view[1] - curve.view[0]));
  };
  const tell = (row, since) => {
    const clamped = Math.min(Math.max(row, -1), curve.data.numRows - 1);
    curve.options.onMoment(clamped, since === clamped ? null : since);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !curve.curves) return;
    curve.pointer = { x: event.clientX, row: rowOf(event) };
    canvas.setPointerCapture(event.pointerId);
    tell(curve.pointer.row, null);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!curve.curves) return;
    mmCurveTip(curve, event, rowOf(event));
    if (!curve.pointer || Math.abs(event.clientX - curve.pointer.x) < 3) return;
    const row = rowOf(event);
    tell(Math.max(row, curve.pointer.row), Math.min(row, curve.pointer.row));
  });
  canvas.addEventListener("pointerup", () => (curve.pointer = null));
  canvas.addEventListener("pointercancel", () => (curve.pointer = null));
  canvas.addEventListener("pointerleave", () => (curve.tip.hidden = true));
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const share = (event.clientX - canvas.getBoundingClientRect().left) / curve.width;
    mmCurveZoom(curve, Math.exp(event.deltaY / 200), share);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => mmCurveKey(curve, event, tell));
}

function mmCurveZoom(curve, factor, share) {
  const [from, to] = curve.view;
  const at = from + (to - from) * share;
  mmViewTo(curve, [at - (at - from) * factor, at + (to - at) * factor]);
}

function mmCurveTip(curve, event, row) {
  const { tip, curves } = curve;
  const text = MM_SERIES.map((name) => `${name} ${uiSize(curves[name][row + 1])}`);
  tip.replaceChildren(...[mmMomentText(curve.data, row), ...text].map((line) => uiElement("div", {}, line)));
  tip.hidden = false;
  const x = event.clientX - curve.canvas.getBoundingClientRect().left;
  tip.style.left = `${Math.max(Math.min(x + 14, curve.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = "24px";
}

// Left and right move by a pixel at least, with shift they draw a stretch out; page keys go by a tenth.
function mmCurveKey(curve, event, tell) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { data, row, since, view, width } = curve;
  const pixel = (view[1] - view[0]) / width;
  const moved = (pixels) => {
    const next = mmRowAt(curve, mmPlace(curve, row) + pixels * pixel);
    return next === row ? row + Math.sign(pixels) : next;
  };
  const targets = { ArrowRight: () => moved(1), ArrowLeft: () => moved(-1), PageUp: () => moved(-width / 10),
    PageDown: () => moved(width / 10), Home: () => -1, End: () => data.numRows - 1, p: () => curve.peak.row };
  if (event.key in targets) {
    const next = targets[event.key]();
    tell(next, event.shiftKey ? (since ?? Math.min(row, next)) : null);
  } else if (event.key === "+" || event.key === "=") mmCurveZoom(curve, 1 / 1.6, (mmPlace(curve, row) - view[0]) / (view[1] - view[0]));
  else if (event.key === "-") mmCurveZoom(curve, 1.6, 0.5);
  else if (event.key === "0") mmViewTo(curve, mmWhole(curve));
  else if (event.key === "Escape" && since !== null) tell(row, null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
