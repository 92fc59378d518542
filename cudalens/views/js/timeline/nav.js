// Find the next event for the keyboard, and the next match of a search.

import { launchesOf } from "./arrows.js";
import { drawnEvent, eventAt, placeAt } from "./lod.js";

/** @import { Timeline } from "./state.js" */

/** @typedef {"left" | "right" | "up" | "down"} Direction */
/**
 * @typedef {{ isHit: Uint8Array, count: number, at: number }} Search Names found, events found, the last match or -1.
 */

/**
 * Place of event i in the rows; its row is known, so only that row is searched.
 *
 * @param {Timeline} timeline
 * @param {number} i
 */
function placeOf(timeline, i) {
  const r = timeline.index.laneRow[timeline.data.lane[i]] + timeline.rows.row[i];
  let p = placeAt(timeline.index, r, timeline.data.start[i]);
  // Zero-length events may share one start.
  while (p < timeline.index.first[r + 1] && timeline.index.at[p] !== i) p++;
  return { r, p };
}

/**
 * The event beside an event in a direction: "left", "right" on its row, "up" to its caller or the lane above, "down" to
 * the first event below it or the lane below; the event itself where there is none.
 *
 * @param {Timeline} timeline
 * @param {number} event
 * @param {Direction} direction
 * @returns {number}
 */
export function neighbour(timeline, event, direction) {
  const i = drawnEvent(timeline.data, timeline.rows, event);
  if (direction === "left" || direction === "right") {
    const { r, p } = placeOf(timeline, i);
    const q = direction === "left" ? p - 1 : p + 1;
    return q >= timeline.index.first[r] && q < timeline.index.first[r + 1] ? timeline.index.at[q] : i;
  }
  const lane = timeline.data.lane[i];
  const row = timeline.rows.row[i] + (direction === "up" ? -1 : 1);
  const middle = timeline.data.start[i] + timeline.data.dur[i] / 2;
  if (row >= 0 && row < timeline.layout.shown[lane]) {
    const inside = direction === "up" ? timeline.data.start[i] : middle;
    const found = nearestInRow(timeline, lane, row, inside, direction === "up" ? 0 : timeline.data.dur[i] / 2);
    if (found >= 0) return found;
  }
  return otherLane(timeline, lane, direction === "up" ? -1 : 1, middle) ?? i;
}

/**
 * @param {Timeline} timeline
 * @param {number} lane
 * @param {number} by
 * @param {number} t
 * @returns {number | null}
 */
function otherLane(timeline, lane, by, t) {
  const { order } = timeline.layout;
  for (let place = order.indexOf(lane) + by; place >= 0 && place < order.length; place += by) {
    const found = nearestInRow(timeline, order[place], 0, t, Infinity);
    if (found >= 0) return found;
  }
  return null;
}

/**
 * Event of a row at t, or the nearest one that begins no farther than `reach` ns away; -1 where there is none.
 *
 * @param {Timeline} timeline
 * @param {number} lane
 * @param {number} row
 * @param {number} t
 * @param {number} reach
 * @returns {number}
 */
export function nearestInRow(timeline, lane, row, t, reach) {
  const { index } = timeline;
  const r = index.laneRow[lane] + row;
  const exact = eventAt(index, r, t, 0);
  if (exact >= 0) return exact;
  const p = placeAt(index, r, t);
  let best = -1;
  let distance = reach;
  for (const q of [p - 1, p]) {
    if (q < index.first[r] || q >= index.first[r + 1]) continue;
    const away = Math.max(index.s[q] - t, t - index.e[q], 0);
    if (away <= distance) {
      best = index.at[q];
      distance = away;
    }
  }
  return best;
}

/**
 * The other end of the launch arrow of event i; i where it has none.
 *
 * @param {Timeline} timeline
 * @param {number} i
 */
export function acrossLaunch(timeline, i) {
  if (timeline.data.launch[i] >= 0) return timeline.data.launch[i];
  return launchesOf(timeline, i, 1)[0] ?? i;
}

/**
 * The event to begin with: the one nearest to the middle of the window, in the first of the lanes that has any.
 *
 * @param {Timeline} timeline
 * @param {number[]} lanes
 */
export function firstEvent(timeline, lanes) {
  const middle = (timeline.view[0] + timeline.view[1]) / 2;
  for (const l of lanes) {
    const found = nearestInRow(timeline, l, 0, middle, Infinity);
    if (found >= 0) return found;
  }
  return -1;
}

/**
 * The names that contain `text`, ignoring case, and how many events have them.
 *
 * @param {Timeline} timeline
 * @param {string} text
 * @returns {Search | null}
 */
export function searchNames(timeline, text) {
  if (!text.trim()) return null;
  const isHit = namesWith(timeline, text);
  let count = 0;
  for (let i = 0; i < timeline.data.n; i++) count += isHit[timeline.data.name[i]];
  return { isHit, count, at: -1 };
}

/**
 * 1 for each name that contains `text`, ignoring case.
 *
 * @param {Timeline} timeline
 * @param {string} text
 */
export function namesWith(timeline, text) {
  const wanted = text.trim().toLowerCase();
  timeline.lowerNames ??= timeline.data.header.names.map((name) => name.toLowerCase());
  return Uint8Array.from(timeline.lowerNames, (name) => +name.includes(wanted));
}

/**
 * The match before or after the last one in time order (at first: the first or last one in view), and its ordinal.
 *
 * @param {Timeline} timeline
 * @param {Search} search
 * @param {1 | -1} by
 */
export function stepMatch({ data, view }, search, by) {
  const from = search.at;
  const isBefore = (/** @type {number} */ a, /** @type {number} */ b) =>
    data.start[a] < data.start[b] || (data.start[a] === data.start[b] && a < b);
  let best = -1;
  let extreme = -1;
  for (let i = 0; i < data.n; i++) {
    if (!search.isHit[data.name[i]]) continue;
    const after = by > 0 ? isBefore : (/** @type {number} */ a, /** @type {number} */ b) => isBefore(b, a);
    if (extreme < 0 || after(i, extreme)) extreme = i;
    const isPast = from >= 0 ? after(from, i) : by > 0 ? data.start[i] >= view[0] : data.start[i] <= view[1];
    if (isPast && (best < 0 || after(i, best))) best = i;
  }
  // Past the last match the first one comes again.
  const found = best >= 0 ? best : extreme;
  let ordinal = 0;
  if (found >= 0) for (let i = 0; i < data.n; i++) ordinal += search.isHit[data.name[i]] && !isBefore(found, i) ? 1 : 0;
  return { found, ordinal };
}
