// One frame's window in device pixels, and where an event stands in it.

import { TL_HEAD, laneAtY, rowTop } from "./view.js";

// The window of this frame, with its left edge on a whole device pixel so that panning does not make blocks shimmer.
export function frameOf(tl) {
  const { size, view, layout } = tl;
  const width = size.width - size.gutter;
  const pixels = Math.max(1, Math.round(width * size.ratio));
  const w = (view[1] - view[0]) / pixels;
  const t0 = Math.round(view[0] / w) * w;
  const scale = pixels / size.ratio / (view[1] - view[0]);
  const top = Math.min(tl.scroll, Math.max(0, layout.total - 1));
  const firstLane = Math.max(0, laneAtY(layout, top));
  let lastLane = laneAtY(layout, top + size.height - TL_HEAD);
  if (lastLane < 0) lastLane = layout.shown.length - 1;
  const x = (t) => size.gutter + (t - t0) * scale;
  const y = (lane, row) => TL_HEAD + rowTop(layout, lane, row) - tl.scroll;
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, firstLane, lastLane, x, y };
}

// Where event i stands, px; null where its row is collapsed or was never laid out.
export function eventBox(tl, frame, i) {
  const lane = tl.data.lane[i];
  const row = tl.rows.row[i];
  if (row >= tl.layout.shown[lane]) return null;
  const x = frame.x(tl.data.start[i]);
  return { x, y: Math.round(frame.y(lane, row)), width: Math.max(1, tl.data.dur[i] * frame.scale) };
}
