// Convert between time or lanes and pixels: the window in time, round tick marks, and the place of every lane.

import { EVENT_FLAGS } from "../payload/derive.js";

/** @import { TraceData } from "../payload/payload.js" */

/** @typedef {[t0: number, t1: number]} TimeRange ns from the header's t0. */
/** @typedef {{ t: number, text: string }} Tick */
/**
 * Where the lanes are below the ruler.
 *
 * @typedef {object} LaneLayout
 * @property {number[]} order Lanes from top to bottom.
 * @property {Float64Array} tops Of each lane, px.
 * @property {Float64Array} ends Of each lane, px.
 * @property {Uint16Array} shown Rows of each lane.
 * @property {number} pinned Height of the pinned lanes, px.
 * @property {number} total px
 */

export const ROW_HEIGHT = 18;
export const RULER_HEIGHT = 24;
export const OVERVIEW_HEIGHT = 26;
export const HEAD_HEIGHT = RULER_HEIGHT + OVERVIEW_HEIGHT;
const LANE_PADDING = 4;
const MIN_WINDOW_NS = 20;

/**
 * First start and last end of the events, ns; at least 1 ns apart. Where `isWork`, the profiler's own marks and
 * instants do not count: they may be far from everything else.
 *
 * @param {TraceData} data
 * @param {boolean} [isWork]
 * @returns {TimeRange}
 */
export function timelineExtent(data, isWork = false) {
  let low = Infinity;
  let high = -Infinity;
  const isMark = data.header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < data.n; i++) {
    if (isWork && (isMark[data.cat[i]] || data.flags[i] & EVENT_FLAGS.instant)) continue;
    if (data.start[i] < low) low = data.start[i];
    const end = data.start[i] + data.dur[i];
    if (end > high) high = end;
  }
  if (low === Infinity) return isWork ? timelineExtent(data) : [0, 1000];
  return [low, Math.max(high, low + 1)];
}

/**
 * The window [t0, t1] brought into bounds: not shorter than MIN_WINDOW_NS ns, not longer than the trace and its
 * margins.
 *
 * @param {TimeRange} view
 * @param {TimeRange} extent
 * @returns {TimeRange}
 */
export function clampWindow([t0, t1], extent) {
  const whole = (extent[1] - extent[0]) * 1.04;
  const span = Math.min(Math.max(t1 - t0, Math.min(MIN_WINDOW_NS, whole)), whole);
  const middle = (t0 + t1) / 2;
  // At least a tenth of the window keeps showing the trace.
  const low = extent[0] - span * 0.9;
  const high = extent[1] - span * 0.1;
  const from = span >= whole ? (extent[0] + extent[1] - whole) / 2 : Math.min(Math.max(middle - span / 2, low), high);
  return [from, from + span];
}

/**
 * @param {TimeRange} extent
 * @returns {TimeRange}
 */
export function fitWindow(extent) {
  const margin = (extent[1] - extent[0]) * 0.02;
  return [extent[0] - margin, extent[1] + margin];
}

/**
 * Round times within [t0, t1], about one every `gap` pixels, with what the ruler writes beside each.
 *
 * @param {number} t0
 * @param {number} t1
 * @param {number} width
 * @param {number} [gap]
 * @returns {{ ticks: Tick[], step: number }}
 */
export function rulerTicks(t0, t1, width, gap = 110) {
  const raw = ((t1 - t0) * gap) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, ([1, 2, 5, 10].find((k) => k * power >= raw * 0.999) ?? 10) * power);
  /** @type {Tick[]} */
  const ticks = [];
  for (let k = Math.ceil(t0 / step); k * step <= t1 && ticks.length < 200; k++) {
    ticks.push({ t: k * step, text: tickText(k * step, step) });
  }
  return { ticks, step };
}

/** @type {[scale: number, unit: string][]} */
const TICK_UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

/**
 * One unit for the whole ruler (that of the largest time shown), with as many decimals as the step needs.
 *
 * @param {number} t
 * @param {number} step
 */
function tickText(t, step) {
  const [scale, unit] = TICK_UNITS.find(([k]) => Math.abs(t) >= k) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return t === 0 ? "0" : `${(t / scale).toFixed(decimals)} ${unit}`;
}

/**
 * @param {number[]} heights Rows of each lane.
 * @param {Set<number>} collapsed
 * @param {number[]} order Lanes from top to bottom, the pinned ones first.
 * @param {number} [numPinned]
 * @returns {LaneLayout}
 */
export function layoutLanes(heights, collapsed, order, numPinned = 0) {
  const tops = new Float64Array(heights.length);
  const ends = new Float64Array(heights.length);
  const shown = new Uint16Array(heights.length);
  let total = 0;
  for (const l of order) {
    shown[l] = collapsed.has(l) ? 1 : heights[l];
    tops[l] = total;
    total += shown[l] * ROW_HEIGHT + 2 * LANE_PADDING;
    ends[l] = total;
  }
  return { order, tops, ends, shown, pinned: numPinned ? ends[order[numPinned - 1]] : 0, total };
}

/**
 * Lane at y px of the layout, -1 above the first and beyond the last.
 *
 * @param {LaneLayout} layout
 * @param {number} y
 */
export function laneAtY(layout, y) {
  const { order, tops } = layout;
  if (y < 0 || y >= layout.total) return -1;
  let low = 0;
  let high = order.length - 1;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (tops[order[mid]] <= y) low = mid;
    else high = mid - 1;
  }
  return order[low];
}

/**
 * @param {LaneLayout} layout
 * @param {number} lane
 * @param {number} row
 */
export function rowTop(layout, lane, row) {
  return layout.tops[lane] + LANE_PADDING + row * ROW_HEIGHT;
}

/**
 * Lane and row at y px of the layout; null between lanes.
 *
 * @param {LaneLayout} layout
 * @param {number} y
 * @returns {{ lane: number, row: number } | null}
 */
export function rowAtY(layout, y) {
  const lane = laneAtY(layout, y);
  if (lane < 0) return null;
  const row = Math.floor((y - layout.tops[lane] - LANE_PADDING) / ROW_HEIGHT);
  return row >= 0 && row < layout.shown[lane] ? { lane, row } : null;
}
