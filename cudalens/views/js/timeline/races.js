// Races in the timeline: a red edge around the kernel of the later access, and a flag in the ruler above it.

import { HEAD_HEIGHT } from "./view.js";

/** @import { RaceMark, TraceData } from "../payload/payload.js" */
/** @import { Frame } from "./frame.js" */
/** @import { Timeline } from "./state.js" */
/** @typedef {RaceMark & { event: number }} PlacedRace The event is -1 where none is known. */

export const RACE_RED = "#e5484d";

/**
 * The marks of cudalens/views/timeline/marks.py, each with its event.
 *
 * @param {TraceData} data
 * @returns {PlacedRace[]}
 */
export function raceMarks(data) {
  const first = [0];
  for (const lane of data.header.lanes) first.push(first[first.length - 1] + lane.count);
  return (data.header.races ?? []).map((mark) => ({ ...mark, event: eventOfMark(data, mark, first) }));
}

/**
 * @param {TraceData} data
 * @param {RaceMark} options
 * @param {number[]} first
 */
function eventOfMark(data, { lane, at, dur }, first) {
  if (lane < 0) return -1;
  for (let i = first[lane]; i < first[lane + 1]; i++) if (data.start[i] === at && data.dur[i] === dur) return i;
  return -1;
}

/**
 * Flags of the races in view; the red edges are painted with the events.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintRaceFlags(context, timeline, { x, t0, t1 }) {
  context.fillStyle = RACE_RED;
  for (const { at } of timeline.races) {
    if (at < t0 || at > t1) continue;
    const left = Math.round(x(at));
    context.fillRect(left, HEAD_HEIGHT - 14, 1.5, 14);
    context.beginPath();
    context.moveTo(left, HEAD_HEIGHT - 14);
    context.lineTo(left + 9, HEAD_HEIGHT - 10.5);
    context.lineTo(left, HEAD_HEIGHT - 7);
    context.fill();
  }
}
