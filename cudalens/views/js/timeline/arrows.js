// Arrows from a launch to the device work that it started: of the events pointed at, in focus or selected; of all in
// view while those are few.

import { eventBox } from "./frame.js";
import { placeAt } from "./lod.js";
import { ROW_HEIGHT } from "./view.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { Frame } from "./frame.js" */
/** @import { Timeline } from "./state.js" */
/** @typedef {{ first: Uint32Array, work: Uint32Array }} LaunchIndex */

const MAX_ARROWS = 80;

/**
 * For each call the device work that it launched: work[first[i]] to work[first[i + 1] - 1].
 *
 * @param {TraceData} data
 * @returns {LaunchIndex}
 */
export function launchIndex(data) {
  const first = new Uint32Array(data.n + 1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) first[data.launch[i] + 1]++;
  for (let i = 0; i < data.n; i++) first[i + 1] += first[i];
  const work = new Uint32Array(first[data.n]);
  const next = first.slice(0, -1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) work[next[data.launch[i]]++] = i;
  return { first, work };
}

/**
 * Device work that event i launched, at most `most` of it; or itself where it was launched.
 *
 * @param {Timeline} timeline
 * @param {number} i
 * @param {number} [most]
 * @returns {number[]}
 */
export function launchesOf(timeline, i, most = MAX_ARROWS) {
  if (timeline.data.launch[i] >= 0) return [i];
  const { first, work } = timeline.launches;
  return [...work.subarray(first[i], Math.min(first[i + 1], first[i] + most))];
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintArrows(context, timeline, frame) {
  /** @type {Set<number>} */
  const strong = new Set();
  for (const i of [timeline.hover, timeline.focused, timeline.selected]) {
    if (i !== null) for (const work of launchesOf(timeline, i)) strong.add(work);
  }
  context.globalAlpha = 0.45;
  for (const i of fewInView(timeline, frame)) {
    // Arrows from far outside would overlap each other.
    const from = timeline.data.start[timeline.data.launch[i]];
    if (!strong.has(i) && from >= frame.t0 && from <= frame.t1) paintArrow(context, timeline, frame, i, 1);
  }
  context.globalAlpha = 1;
  for (const i of strong) paintArrow(context, timeline, frame, i, 1.8);
}

/**
 * Launched device work in view; nothing where it is too much to tell apart.
 *
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @returns {number[]}
 */
function fewInView(timeline, frame) {
  const { index, data } = timeline;
  /** @type {number[]} */
  const found = [];
  let seen = 0;
  for (const l of frame.parts.flatMap(({ lanes }) => lanes)) {
    if (data.header.lanes[l].kind !== "device") continue;
    for (let row = 0; row < timeline.layout.shown[l]; row++) {
      const r = index.laneRow[l] + row;
      for (let p = placeAt(index, r, frame.t0); p < index.first[r + 1] && index.s[p] < frame.t1; p++) {
        if (seen++ > 4 * MAX_ARROWS) return [];
        if (data.launch[index.at[p]] >= 0 && found.push(index.at[p]) > MAX_ARROWS) return [];
      }
    }
  }
  return found;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {number} i
 * @param {number} width
 */
function paintArrow(context, timeline, frame, i, width) {
  const from =
    eventBox(timeline, frame, timeline.data.launch[i]) ?? parentBox(timeline, frame, timeline.data.launch[i]);
  const to = eventBox(timeline, frame, i);
  if (from === null || to === null) return;
  const isDown = to.y > from.y;
  const x0 = from.x + Math.min(from.width / 2, 12);
  const y0 = from.y + (isDown ? ROW_HEIGHT - 1 : 0);
  const y1 = to.y + (isDown ? 0 : ROW_HEIGHT - 1);
  const bend = Math.min(60, Math.abs(y1 - y0) / 2 + 8) * (isDown ? 1 : -1);
  context.strokeStyle = timeline.colors.arrow;
  context.fillStyle = timeline.colors.arrow;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0, y0 + bend, to.x, y1 - bend, to.x, y1);
  context.stroke();
  const tip = isDown ? -6 : 6;
  context.beginPath();
  context.moveTo(to.x, y1);
  context.lineTo(to.x - 3.5, y1 + tip);
  context.lineTo(to.x + 3.5, y1 + tip);
  context.fill();
}

/**
 * The place of a launch whose own row is folded: at its nearest ancestor that shows.
 *
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {number} i
 * @returns {{ x: number, y: number, width: number } | null}
 */
function parentBox(timeline, frame, i) {
  let up = i;
  while (up >= 0 && timeline.rows.row[up] >= timeline.layout.shown[timeline.data.lane[up]])
    up = timeline.data.parent[up];
  const box = up < 0 ? null : eventBox(timeline, frame, up);
  return box && { x: frame.x(timeline.data.start[i]), y: box.y, width: 1 };
}
