// Waits for the GPU in the timeline: an orange edge around the runtime call, and a tick in the ruler above it.

import { HEAD_HEIGHT } from "./view.js";

/** @import { SyncMark, TraceData } from "../payload/payload.js" */
/** @import { Frame } from "./frame.js" */
/** @import { Timeline } from "./state.js" */
/** @typedef {SyncMark & { event: number }} PlacedSync The event is -1 where it is not found. */

export const SYNC_ORANGE = "#d55e00";
const SYNC_TICK = 8;

/**
 * The marks of cudalens/views/timeline/marks.py, longest first, each with its event.
 *
 * @param {TraceData} data
 * @returns {PlacedSync[]}
 */
export function syncMarks(data) {
  const marks = data.header.syncs ?? [];
  if (!marks.length) return [];
  const first = [0];
  for (const lane of data.header.lanes) first.push(first[first.length - 1] + lane.count);
  const wanted = new Map(marks.map((mark) => [`${mark.lane} ${mark.at} ${mark.dur}`, -1]));
  for (const lane of new Set(marks.map((mark) => mark.lane))) {
    for (let i = first[lane]; i < first[lane + 1]; i++) {
      const key = `${lane} ${data.start[i]} ${data.dur[i]}`;
      // Of a parent and a child with the same times the child is the call.
      if (wanted.has(key)) wanted.set(key, i);
    }
  }
  return marks.map((mark) => ({ ...mark, event: wanted.get(`${mark.lane} ${mark.at} ${mark.dur}`) ?? -1 }));
}

/**
 * Ticks of the waits in view, as wide as they lasted; the edges are painted with the events.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintSyncTicks(context, timeline, { x, t0, t1 }) {
  context.fillStyle = SYNC_ORANGE;
  for (const { at, dur } of timeline.syncs) {
    if (at + dur < t0 || at > t1) continue;
    const left = Math.round(x(at));
    context.fillRect(left, HEAD_HEIGHT - SYNC_TICK / 2, Math.max(1.5, x(at + dur) - left), SYNC_TICK / 2);
  }
}
