// Memory over time by what it is for: the allocations of each class, stacked, at the level of detail of the screen.

import { colorClassesOf } from "./colors.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { ColorMode } from "./colors.js" */
/** @import { MemoryData } from "./data.js" */

/**
 * The changes of each class's bytes, by row, and their sums at every `STRIDE` rows.
 *
 * @typedef {object} Bands
 * @property {string[]} css Colour of each class.
 * @property {string[]} labels
 * @property {number[]} order Classes that hold anything, most bytes over time first.
 * @property {Int32Array} first Of the changes of each row; shape (rows + 1).
 * @property {Uint8Array} classes Class of each change.
 * @property {Float64Array} changes Bytes of each change.
 * @property {Float64Array} sums Bytes of each class before the row k * STRIDE; shape (k * classes).
 */

const STRIDE = 1024;

/**
 * The bands of a device.
 *
 * @param {MemoryData} data
 * @param {number} device Index into header.devices.
 * @param {ColorMode} mode
 * @param {ThemeName} theme
 * @returns {Bands}
 */
export function bandsOf(data, device, mode, theme) {
  const { css, of, labels } = colorClassesOf(data, device, mode, theme);
  const { numRows, allocations } = data;
  const { n, alloc, released, bytes } = allocations;
  const first = new Int32Array(numRows + 1);
  const held = new Float64Array(css.length);
  for (let i = 0; i < n; i++) {
    if (allocations.device[i] !== device) continue;
    if (alloc[i] >= 0) first[alloc[i] + 1]++;
    else held[of(i)] += bytes[i];
    if (released[i] < numRows) first[released[i] + 1]++;
  }
  for (let row = 0; row < numRows; row++) first[row + 1] += first[row];
  const next = first.slice();
  const classes = new Uint8Array(first[numRows]);
  const changes = new Float64Array(first[numRows]);
  const add = (/** @type {number} */ row, /** @type {number} */ kind, /** @type {number} */ size) => {
    classes[next[row]] = kind;
    changes[next[row]++] = size;
  };
  for (let i = 0; i < n; i++) {
    if (allocations.device[i] !== device) continue;
    const kind = of(i);
    if (alloc[i] >= 0) add(alloc[i], kind, bytes[i]);
    if (released[i] < numRows) add(released[i], kind, -bytes[i]);
  }
  const { sums, totals } = sumsOf(numRows, held, { first, classes, changes });
  const order = [...totals.keys()].filter((k) => totals[k] > 0).sort((a, b) => totals[b] - totals[a]);
  return { css, labels, order, first, classes, changes, sums };
}

/**
 * Sums at every `STRIDE` rows, and the sum of these by class.
 *
 * @param {number} numRows
 * @param {Float64Array} held Bytes of each class before the first row; changed.
 * @param {Pick<Bands, "first" | "classes" | "changes">} bands
 */
function sumsOf(numRows, held, { first, classes, changes }) {
  const num = held.length;
  const sums = new Float64Array((Math.floor(numRows / STRIDE) + 1) * num);
  const totals = new Float64Array(num);
  for (let row = 0; row <= numRows; row++) {
    if (row % STRIDE === 0) sums.set(held, (row / STRIDE) * num);
    if (row % STRIDE === 0 || numRows <= STRIDE) for (let k = 0; k < num; k++) totals[k] += held[k];
    if (row === numRows) break;
    for (let c = first[row]; c < first[row + 1]; c++) held[classes[c]] += changes[c];
  }
  for (let k = 0; k < num; k++) totals[k] += held[k];
  return { sums, totals };
}

/**
 * Reads the bytes of each class after a row; fast for rows that follow each other.
 *
 * @param {Bands} bands
 */
export function createBandReader({ css, first, classes, changes, sums }) {
  const num = css.length;
  const held = new Float64Array(num);
  let at = -1; // the number of rows that `held` contains
  /**
   * @param {number} row
   * @returns {Float64Array} Valid until the next call.
   */
  return (row) => {
    const wanted = row + 1;
    if (at < 0 || wanted < at || wanted - at > STRIDE) {
      const mark = Math.floor(wanted / STRIDE);
      held.set(sums.subarray(mark * num, (mark + 1) * num));
      at = mark * STRIDE;
    }
    for (let c = first[at]; c < first[wanted]; c++) held[classes[c]] += changes[c];
    at = wanted;
    return held;
  };
}

/**
 * The class of the band at `bytes` after a row; -1 above all bands.
 *
 * @param {Bands} bands
 * @param {number} row
 * @param {number} bytes
 */
export function bandAt(bands, row, bytes) {
  const held = createBandReader(bands)(row);
  let top = 0;
  for (const kind of bands.order) {
    top += held[kind];
    if (bytes < top) return kind;
  }
  return -1;
}
