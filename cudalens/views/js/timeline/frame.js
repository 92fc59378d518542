// One frame's window in device pixels, the lanes in it, and the place of an event in it.

import { HEAD_HEIGHT, laneAtY, rowTop } from "./view.js";

/** @import { Timeline } from "./state.js" */
/** @typedef {{ lanes: number[], top: number, bottom: number }} Part Lanes in view that scroll together, px of the canvas. */
/** @typedef {ReturnType<typeof frameOf>} Frame The window of one frame; `w` ns a device pixel, `scale` px a ns. */

// Pinned lanes that take more than this share of the height scroll with the others.
const MAX_PINNED = 0.6;

/**
 * Height of the lanes that stay on top, px.
 *
 * @param {Timeline} timeline
 */
export function pinnedHeight({ size, layout }) {
  return layout.pinned <= MAX_PINNED * (size.height - HEAD_HEIGHT) ? layout.pinned : 0;
}

/**
 * Place in the layout of y px of the canvas.
 *
 * @param {Timeline} timeline
 * @param {number} y
 */
export function layoutY(timeline, y) {
  return y - HEAD_HEIGHT < pinnedHeight(timeline) ? y - HEAD_HEIGHT : y - HEAD_HEIGHT + timeline.scroll;
}

/**
 * The window of this frame, with its left edge on a whole device pixel so that panning does not make blocks shimmer.
 *
 * @param {Timeline} timeline
 */
export function frameOf(timeline) {
  const { size, view, layout } = timeline;
  const width = size.width - size.gutter;
  const pixels = Math.max(1, Math.round(width * size.ratio));
  const w = (view[1] - view[0]) / pixels;
  const t0 = Math.round(view[0] / w) * w;
  const scale = pixels / size.ratio / (view[1] - view[0]);
  const pinned = pinnedHeight(timeline);
  const x = (/** @type {number} */ t) => size.gutter + (t - t0) * scale;
  /** Canvas place of what is at `at` px of the layout, in a lane. */
  const down = (/** @type {number} */ lane, /** @type {number} */ at) =>
    HEAD_HEIGHT + at - (layout.tops[lane] < pinned ? 0 : timeline.scroll);
  const y = (/** @type {number} */ lane, /** @type {number} */ row) => down(lane, rowTop(layout, lane, row));
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, parts: partsInView(timeline, pinned), x, y, down };
}

/**
 * The pinned lanes in view, where there are any, and the others in view.
 *
 * @param {Timeline} timeline
 * @param {number} pinned px
 * @returns {Part[]}
 */
function partsInView({ layout, size, scroll }, pinned) {
  const { order, tops } = layout;
  const from = Math.min(scroll, Math.max(0, layout.total - 1)) + pinned;
  const to = scroll + size.height - HEAD_HEIGHT;
  const first = Math.max(0, order.indexOf(laneAtY(layout, from)));
  const last = laneAtY(layout, to);
  const lanes = order.slice(first, last < 0 ? order.length : order.indexOf(last) + 1);
  const free = { lanes: lanes.filter((l) => tops[l] >= pinned), top: HEAD_HEIGHT + pinned, bottom: size.height };
  if (!pinned) return [free];
  const fixed = { lanes: order.filter((l) => tops[l] < pinned), top: HEAD_HEIGHT, bottom: HEAD_HEIGHT + pinned };
  return [free, fixed];
}

/**
 * The place of event i, px; null where its row is collapsed or was never laid out.
 *
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {number} i
 * @returns {{ x: number, y: number, width: number } | null}
 */
export function eventBox(timeline, frame, i) {
  const lane = timeline.data.lane[i];
  const row = timeline.rows.row[i];
  if (row >= timeline.layout.shown[lane]) return null;
  const x = frame.x(timeline.data.start[i]);
  return { x, y: Math.round(frame.y(lane, row)), width: Math.max(1, timeline.data.dur[i] * frame.scale) };
}
