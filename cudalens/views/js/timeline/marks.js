// What a reader marked: a stripe in the ruler, as long as the marked time, with the beginning of its note.

import { HEAD_HEIGHT, OVERVIEW_HEIGHT } from "./view.js";

/** @import { Frame } from "./frame.js" */
/** @import { Timeline } from "./state.js" */

const STRIPE = 5;
const MAX_TEXT = 24;

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintUserMarks(context, timeline, { x, t0, t1 }) {
  const { gutter, width, height } = timeline.size;
  context.fillStyle = timeline.colors.accent;
  context.textAlign = "left";
  for (const { at, dur, note } of timeline.marks) {
    if (at + dur < t0 || at > t1) continue;
    const left = Math.max(gutter, Math.round(x(at)));
    const right = Math.min(width, Math.max(left + 2, x(at + dur)));
    context.fillRect(left, OVERVIEW_HEIGHT, right - left, STRIPE);
    context.globalAlpha = 0.5;
    if (at >= t0) context.fillRect(left, OVERVIEW_HEIGHT, 1, height - OVERVIEW_HEIGHT);
    context.globalAlpha = 1;
    const text = note.length > MAX_TEXT ? `${note.slice(0, MAX_TEXT)}…` : note;
    if (!text) continue;
    const room = context.measureText(text).width + 8;
    const from = Math.min(left, width - room);
    context.fillRect(from, OVERVIEW_HEIGHT, room, HEAD_HEIGHT - OVERVIEW_HEIGHT - 9);
    context.fillStyle = timeline.colors.bg;
    context.fillText(text, from + 4, OVERVIEW_HEIGHT + (HEAD_HEIGHT - OVERVIEW_HEIGHT - 9) / 2 + 0.5);
    context.fillStyle = timeline.colors.accent;
  }
}
