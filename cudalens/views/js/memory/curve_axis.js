// Convert between rows of the history and places on the axis of the curve.

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { Bands } from "./bands.js" */
/** @import { Curves, HistoryMark, MemoryData } from "./data.js" */

/** @typedef {{ row: number, bytes: number }} Peak */

/**
 * The curve of memory over the history.
 *
 * @typedef {object} Curve
 * @property {MemoryData} data
 * @property {CurveOptions} options
 * @property {HTMLElement} host
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLCanvasElement} over Canvas of the cursor.
 * @property {HTMLElement} tip
 * @property {HTMLElement} legend
 * @property {number} most Bytes at the top of the last paint.
 * @property {ThemeName} theme
 * @property {Float64Array | null} clock Time of each row where the axis is time; null where it is actions.
 * @property {[number, number]} view Places on the axis.
 * @property {{ curves: Curves, peak: Peak, marks: HistoryMark[] } | null} shown
 * @property {Bands | null} bands What the memory is for, over time.
 * @property {number} row The chosen moment.
 * @property {number | null} since The row that a dragged stretch begins with.
 * @property {{ x: number, row: number } | null} pointer Where a drag began.
 * @property {number} width px
 * @property {number} ratio Device pixels per px.
 * @property {number} pending Animation frame that is requested; 0 for none.
 * @property {number[]} script Durations of the last paints, ms.
 */

/**
 * @typedef {object} CurveOptions
 * @property {ThemeName} theme
 * @property {(row: number, since: number | null) => void} onMoment
 */

/**
 * Place of a row on the axis.
 *
 * @param {Curve} curve
 * @param {number} row
 */
export function placeOfRow({ clock }, row) {
  if (clock === null) return row + 1;
  return row < 0 ? 0 : clock[row];
}

/**
 * The last row at or before a place.
 *
 * @param {Curve} curve
 * @param {number} place
 */
export function rowAtPlace({ clock, data }, place) {
  if (clock !== null) return rowAtTime(clock, place);
  return Math.min(Math.max(Math.floor(place) - 1, -1), data.numRows - 1);
}

/**
 * The last row at or before a time; -1 where there is none.
 *
 * @param {Float64Array} clock
 * @param {number} time ns from the first row.
 */
export function rowAtTime(clock, time) {
  let [low, high] = [0, clock.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (clock[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * The window that shows the whole history.
 *
 * @param {Pick<Curve, "clock" | "data">} curve
 * @returns {[number, number]}
 */
export function wholeRange({ clock, data }) {
  const end = clock === null ? data.numRows : (clock[data.numRows - 1] ?? 0);
  return [0, Math.max(end * 1.005, 1)];
}

/**
 * Place of a row, px.
 *
 * @param {Curve} curve
 * @param {number} row
 */
export function xOfRow(curve, row) {
  const [from, to] = curve.view;
  return ((placeOfRow(curve, row) - from) / (to - from)) * curve.width;
}
