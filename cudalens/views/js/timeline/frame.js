// One frame's window in device pixels, and the place of an event in it.

import { HEAD_HEIGHT, laneAtY, rowTop } from "./view.js";

/** @import { Timeline } from "./state.js" */
/** @typedef {ReturnType<typeof frameOf>} Frame The window of one frame; `w` ns a device pixel, `scale` px a ns. */

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
  const top = Math.min(timeline.scroll, Math.max(0, layout.total - 1));
  const firstLane = Math.max(0, laneAtY(layout, top));
  let lastLane = laneAtY(layout, top + size.height - HEAD_HEIGHT);
  if (lastLane < 0) lastLane = layout.shown.length - 1;
  const x = (/** @type {number} */ t) => size.gutter + (t - t0) * scale;
  const y = (/** @type {number} */ lane, /** @type {number} */ row) =>
    HEAD_HEIGHT + rowTop(layout, lane, row) - timeline.scroll;
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, firstLane, lastLane, x, y };
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
