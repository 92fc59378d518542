// What a device had allocated, active and reserved over the whole history, at the level of detail of the screen: each
// column of pixels shows the least and the most of all actions in it. A click chooses a moment, dragging a stretch of time.

import { mmPaintCursor, mmPaintCurves, mmPlace, mmRowAt, mmWhole, mmX, MM_CURVE_HEIGHT, MM_SERIES } from "./curve_draw.js";
import { uiDuration, uiElement, uiSize } from "../shared/dom.js";

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
    PageDown: () => moved(width / 10), Home: () => -1, End: () => data.numRows - 1, p: () => curve.peak.row, P: () => curve.peak.row };
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
