// What a device had allocated, active and reserved over the whole history, at the level of detail of the screen: each
// column of pixels shows the least and the most of all actions in it. A click chooses a moment, dragging a stretch of
// time.

import { element } from "../shared/dom.js";
import { formatBytes, formatDuration } from "../shared/format.js";
import { bandAt, createBandReader } from "./bands.js";
import { placeOfRow, rowAtPlace, wholeRange, xOfRow } from "./curve_axis.js";
import { bytesAt, CURVE_HEIGHT, paintCursor, paintCurves, SERIES } from "./curve_draw.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { Bands } from "./bands.js" */
/** @import { Curve, CurveOptions, Peak } from "./curve_axis.js" */
/** @import { Curves, HistoryMark, MemoryData } from "./data.js" */

/**
 * @typedef {object} CurveView
 * @property {(curves: Curves, peak: Peak, marks: HistoryMark[]) => void} show
 * @property {(bands: Bands) => void} setBands
 * @property {(row: number) => { [label: string]: number }} bandsAt Bytes of each band after a row.
 * @property {(row: number, since: number | null) => void} setMoment
 * @property {(isTime: boolean) => void} setAxis
 * @property {(view: [number, number] | null) => void} zoomTo
 * @property {() => [number, number]} getView
 * @property {(row: number) => number} xOf
 * @property {(theme: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => { script: number[] }} stats
 * @property {() => void} destroy
 */

/**
 * Builds the curve in `host`.
 *
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {CurveOptions} options
 * @returns {CurveView}
 */
export function createCurve(host, data, options) {
  const curve = createState(host, data, options);
  const { canvas, over, tip, legend } = curve;
  host.replaceChildren(element("div", { class: "mm-curve-stage" }, canvas, over), legend, tip);
  listenToCurve(curve);
  return {
    show(curves, peak, marks) {
      curve.shown = { curves, peak, marks };
      resizeCanvases(curve);
    },
    setBands(bands) {
      curve.bands = bands;
      legend.replaceChildren(...bands.order.map((kind) => legendEntry(bands, kind)));
      if (curve.shown) requestPaint(curve);
    },
    bandsAt(row) {
      const { bands } = curve;
      if (bands === null) return {};
      const held = createBandReader(bands)(row);
      return Object.fromEntries(bands.order.map((kind) => [bands.labels[kind], held[kind]]));
    },
    setMoment(row, since) {
      Object.assign(curve, { row, since });
      canvas.setAttribute("aria-valuenow", String(row));
      canvas.setAttribute("aria-valuetext", momentText(data, row));
      if (curve.shown) paintCursor(curve);
    },
    setAxis(isTime) {
      curve.clock = isTime ? data.clock : null;
      setView(curve, wholeRange(curve));
    },
    zoomTo: (view) => setView(curve, view ?? wholeRange(curve)),
    getView: () => curve.view,
    xOf: (row) => xOfRow(curve, row),
    setTheme(theme) {
      curve.theme = theme;
      if (curve.shown) requestPaint(curve);
    },
    resize() {
      if (curve.shown && host.clientWidth !== curve.width) resizeCanvases(curve);
    },
    stats: () => ({ script: curve.script }),
    destroy() {
      cancelAnimationFrame(curve.pending);
      host.replaceChildren();
    },
  };
}

/**
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {CurveOptions} options
 * @returns {Curve}
 */
function createState(host, data, options) {
  const { clock, numRows } = data;
  const canvas = element("canvas", {
    class: "mm-curve-canvas",
    tabindex: 0,
    role: "slider",
    "aria-label": "Moment of the history",
    "aria-valuemin": -1,
    "aria-valuemax": numRows - 1,
    "aria-valuenow": numRows - 1,
  });
  return {
    data,
    options,
    host,
    canvas,
    over: element("canvas", { class: "mm-over", "aria-hidden": "true" }),
    tip: element("div", { class: "mm-tip", hidden: true }),
    legend: element("p", { class: "mm-legend mm-curve-legend" }),
    theme: options.theme,
    clock,
    view: wholeRange({ clock, data }),
    shown: null,
    bands: null,
    row: numRows - 1,
    since: null,
    pointer: null,
    width: 0,
    ratio: 1,
    most: 1,
    pending: 0,
    script: [],
  };
}

/**
 * @param {MemoryData} data
 * @param {number} row
 */
export function momentText(data, row) {
  if (row < 0) return "before the first action";
  const action = `action ${(row + 1).toLocaleString("en-US")} of ${data.numRows.toLocaleString("en-US")}`;
  return data.clock ? `${formatDuration(data.clock[row])}, ${action}` : action;
}

/**
 * @param {Bands} bands
 * @param {number} kind
 */
function legendEntry({ css, labels }, kind) {
  const swatch = element("i", { "aria-hidden": "true" });
  swatch.style.background = css[kind];
  return element("span", { class: "mm-key", title: labels[kind] }, swatch, labels[kind]);
}

/** @param {Curve} curve */
function resizeCanvases(curve) {
  curve.width = Math.max(curve.host.clientWidth || curve.width, 160);
  curve.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [curve.canvas, curve.over]) {
    canvas.width = Math.floor(curve.width * curve.ratio);
    canvas.height = Math.floor(CURVE_HEIGHT * curve.ratio);
    canvas.style.width = `${curve.width}px`;
    canvas.style.height = `${CURVE_HEIGHT}px`;
  }
  requestPaint(curve);
}

/**
 * @param {Curve} curve
 * @param {[number, number]} view
 */
function setView(curve, [from, to]) {
  const [, end] = wholeRange(curve);
  const span = Math.min(Math.max(to - from, curve.clock === null ? 4 : 100), end);
  const begin = Math.min(Math.max(from, 0), end - span);
  curve.view = [begin, begin + span];
  requestPaint(curve);
}

/** @param {Curve} curve */
function requestPaint(curve) {
  if (curve.pending) return;
  curve.pending = requestAnimationFrame(() => {
    curve.pending = 0;
    if (!curve.shown) return;
    const began = performance.now();
    paintCurves(curve);
    paintCursor(curve);
    curve.script.push(performance.now() - began);
  });
}

/**
 * Chooses a moment, or a stretch from the row `since` on.
 *
 * @param {Curve} curve
 * @param {number} row
 * @param {number | null} since
 */
function choose({ data, options }, row, since) {
  const clamped = Math.min(Math.max(row, -1), data.numRows - 1);
  options.onMoment(clamped, since === clamped ? null : since);
}

/**
 * Place of the pointer on the curve, px.
 *
 * @param {Curve} curve
 * @param {MouseEvent} event
 */
function pointerX({ canvas }, event) {
  return event.clientX - canvas.getBoundingClientRect().left;
}

/**
 * The row under the pointer.
 *
 * @param {Curve} curve
 * @param {MouseEvent} event
 */
function rowUnder(curve, event) {
  const [from, to] = curve.view;
  return rowAtPlace(curve, from + (pointerX(curve, event) / curve.width) * (to - from));
}

/** @param {Curve} curve */
function listenToCurve(curve) {
  const { canvas } = curve;
  const endDrag = () => {
    curve.pointer = null;
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !curve.shown) return;
    curve.pointer = { x: event.clientX, row: rowUnder(curve, event) };
    canvas.setPointerCapture(event.pointerId);
    choose(curve, curve.pointer.row, null);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!curve.shown) return;
    const row = rowUnder(curve, event);
    showTip(curve, curve.shown.curves, event, row);
    const { pointer } = curve;
    if (!pointer || Math.abs(event.clientX - pointer.x) < 3) return;
    choose(curve, Math.max(row, pointer.row), Math.min(row, pointer.row));
  });
  canvas.addEventListener("pointerup", endDrag);
  canvas.addEventListener("pointercancel", endDrag);
  canvas.addEventListener("pointerleave", () => {
    curve.tip.hidden = true;
  });
  canvas.addEventListener("wheel", (event) => onWheel(curve, event), { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !pressed(curve, event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * @param {Curve} curve
 * @param {WheelEvent} event
 */
function onWheel(curve, event) {
  if (!(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  zoomCurve(curve, Math.exp(event.deltaY / 200), pointerX(curve, event) / curve.width);
}

/**
 * @param {Curve} curve
 * @param {number} factor
 * @param {number} share Of the view, where time stays in place.
 */
function zoomCurve(curve, factor, share) {
  const [from, to] = curve.view;
  const at = from + (to - from) * share;
  setView(curve, [at - (at - from) * factor, at + (to - at) * factor]);
}

/**
 * @param {Curve} curve
 * @param {Curves} curves
 * @param {MouseEvent} event
 * @param {number} row
 */
function showTip(curve, curves, event, row) {
  const { tip } = curve;
  const text = SERIES.map((name) => `${name} ${formatBytes(curves[name][row + 1])}`);
  const band = bandText(curve, event, row);
  const lines = [...(band ? [band] : []), momentText(curve.data, row), ...text];
  tip.replaceChildren(...lines.map((line) => element("div", {}, line)));
  tip.hidden = false;
  tip.style.left = `${Math.max(Math.min(pointerX(curve, event) + 14, curve.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = "24px";
}

/**
 * What the band under the pointer is, and its bytes; "" outside of the bands.
 *
 * @param {Curve} curve
 * @param {MouseEvent} event
 * @param {number} row
 */
function bandText(curve, event, row) {
  const { bands, canvas } = curve;
  if (bands === null) return "";
  const kind = bandAt(bands, row, bytesAt(curve, event.clientY - canvas.getBoundingClientRect().top));
  return kind < 0 ? "" : `${bands.labels[kind]}: ${formatBytes(createBandReader(bands)(row)[kind])}`;
}

/**
 * The row that a key moves to: left and right by a pixel at least, page keys by a tenth of the view.
 *
 * @param {Curve} curve
 * @param {string} key
 * @returns {number | null}
 */
function rowOfKey(curve, key) {
  const { data, row, view, width, shown } = curve;
  const moved = (/** @type {number} */ pixels) => {
    const next = rowAtPlace(curve, placeOfRow(curve, row) + (pixels * (view[1] - view[0])) / width);
    return next === row ? row + Math.sign(pixels) : next;
  };
  if (key === "ArrowRight") return moved(1);
  if (key === "ArrowLeft") return moved(-1);
  if (key === "PageDown") return moved(width / 10);
  if (key === "PageUp") return moved(-width / 10);
  if (key === "Home") return -1;
  if (key === "End") return data.numRows - 1;
  return key.toLowerCase() === "p" && shown ? shown.peak.row : null;
}

/**
 * With shift, the keys that move extend a stretch.
 *
 * @param {Curve} curve
 * @param {KeyboardEvent} event
 * @returns {boolean} Whether the key has a meaning.
 */
function pressed(curve, event) {
  const { row, since, view } = curve;
  const next = rowOfKey(curve, event.key);
  if (next !== null) choose(curve, next, event.shiftKey ? (since ?? Math.min(row, next)) : null);
  else if (event.key === "+" || event.key === "=") {
    zoomCurve(curve, 1 / 1.6, (placeOfRow(curve, row) - view[0]) / (view[1] - view[0]));
  } else if (event.key === "-") zoomCurve(curve, 1.6, 0.5);
  else if (event.key === "0") setView(curve, wholeRange(curve));
  else if (event.key === "Escape" && since !== null) choose(curve, row, null);
  else return false;
  return true;
}
