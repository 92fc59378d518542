// Pan and zoom: changes of the window in time that gestures make.

import { glideTo, moveTo } from "./moves.js";

/** @import { Timeline } from "./state.js" */
/** @import { TimeRange } from "./view.js" */

/**
 * @param {Timeline} timeline
 * @param {TimeRange} view
 */
export function showWindow(timeline, view) {
  timeline.beforeFrame = null;
  moveTo(timeline, view);
}

/**
 * @param {Timeline} timeline
 * @param {number} px
 */
export function panBy(timeline, px) {
  const { size, view } = timeline;
  const by = (px / (size.width - size.gutter)) * (view[1] - view[0]);
  showWindow(timeline, [view[0] + by, view[1] + by]);
}

/**
 * @param {Timeline} timeline
 * @param {number} factor Of the window's length.
 * @param {number | null} x Where time stays in place, px; the middle where null.
 */
export function zoomBy(timeline, factor, x) {
  const { size, view } = timeline;
  const share = x === null ? 0.5 : Math.min(Math.max((x - size.gutter) / (size.width - size.gutter), 0), 1);
  const anchor = view[0] + share * (view[1] - view[0]);
  showWindow(timeline, [anchor + (view[0] - anchor) * factor, anchor + (view[1] - anchor) * factor]);
}

/**
 * @param {Timeline} timeline
 * @param {number} t
 */
export function centreAt(timeline, t) {
  const half = (timeline.view[1] - timeline.view[0]) / 2;
  showWindow(timeline, [t - half, t + half]);
}

/**
 * Shows the end of the trace, or its beginning, at the same scale.
 *
 * @param {Timeline} timeline
 * @param {boolean} isEnd
 */
export function glideToEnd(timeline, isEnd) {
  const { extent, view } = timeline;
  const span = view[1] - view[0];
  const edge = span * 0.02;
  const from = isEnd ? extent[1] + edge - span : extent[0] - edge;
  glideTo(timeline, [from, from + span]);
}
