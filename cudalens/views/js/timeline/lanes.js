// Lanes: which are folded or pinned on top, their order, and the names that show in each.

import { choose, relayout } from "./moves.js";
import { namesWith } from "./nav.js";

/** @import { Timeline } from "./state.js" */

/**
 * Folds a lane to one row, or unfolds it.
 *
 * @param {Timeline} timeline
 * @param {number} lane
 */
export function foldLane(timeline, lane) {
  if (lane < 0 || timeline.rows.heights[lane] < 2) return;
  if (!timeline.collapsed.delete(lane)) timeline.collapsed.add(lane);
  changed(timeline, lane, timeline.collapsed.has(lane) ? "folded" : "unfolded");
}

/**
 * Pins a lane below the other pinned ones, where it stays while the others scroll; unpins a pinned one.
 *
 * @param {Timeline} timeline
 * @param {number} lane
 */
export function pinLane(timeline, lane) {
  const { order, pinned } = timeline;
  if (lane < 0) return;
  order.splice(order.indexOf(lane), 1);
  if (!pinned.delete(lane)) {
    order.splice(pinned.size, 0, lane);
    pinned.add(lane);
  } else order.splice(pinned.size, 0, lane);
  changed(timeline, lane, pinned.has(lane) ? "pinned" : "no longer pinned");
}

/**
 * Moves a lane to a place in the order; pinned lanes stay above the others.
 *
 * @param {Timeline} timeline
 * @param {number} lane
 * @param {number} place
 */
export function moveLane(timeline, lane, place) {
  const { order, pinned } = timeline;
  if (lane < 0) return;
  const [low, high] = pinned.has(lane) ? [0, pinned.size - 1] : [pinned.size, order.length - 1];
  order.splice(order.indexOf(lane), 1);
  order.splice(Math.min(Math.max(place, low), high), 0, lane);
  changed(timeline, lane, `is lane ${order.indexOf(lane) + 1} of ${order.length}`);
}

/**
 * Dims the events of a lane whose names do not contain `text`; "" removes the filter.
 *
 * @param {Timeline} timeline
 * @param {number} lane
 * @param {string} text
 */
export function filterLane(timeline, lane, text) {
  if (text.trim()) timeline.filters.set(lane, { text: text.trim(), isHit: namesWith(timeline, text) });
  else timeline.filters.delete(lane);
  choose(timeline);
}

/**
 * @param {Timeline} timeline
 * @param {number} lane
 * @param {string} what
 */
function changed(timeline, lane, what) {
  timeline.dom.spoken.textContent = `${timeline.data.header.lanes[lane].label} ${what}`;
  relayout(timeline);
  timeline.lanesPanel?.update();
}
