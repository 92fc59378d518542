// Paint the axes: the ruler above the lanes, and the gutter with the lanes' labels.

import { cutToWidth } from "../shared/dom.js";
import { formatDuration } from "../shared/format.js";
import { HEAD_HEIGHT, OVERVIEW_HEIGHT, ROW_HEIGHT, RULER_HEIGHT, rulerTicks } from "./view.js";

/** @import { Frame, Part } from "./frame.js" */
/** @import { Timeline } from "./state.js" */
/** @import { TimeRange } from "./view.js" */

/** Share of the letters of a lane's label that its end has: the number of the stream. */
const LABEL_TAIL = 0.25;

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintRuler(context, timeline, frame) {
  const { x, t0, t1, width } = frame;
  const { gutter } = timeline.size;
  const { ticks } = rulerTicks(t0, t1, width);
  context.fillStyle = timeline.colors.line;
  context.fillRect(gutter, HEAD_HEIGHT - 1, width, 1);
  context.textAlign = "left";
  for (const { t, text } of ticks) {
    const at = Math.round(x(t));
    context.fillStyle = timeline.colors.line;
    context.fillRect(at, HEAD_HEIGHT - 8, 1, 8);
    context.fillStyle = timeline.colors.muted;
    if (at + 60 < timeline.size.width) context.fillText(text, at + 4, OVERVIEW_HEIGHT + RULER_HEIGHT / 2);
  }
  const { range } = timeline;
  if (range !== null && range[1] > t0 && range[0] < t1) paintRangeText(context, timeline, range, frame);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {TimeRange} range
 * @param {Frame} frame
 */
function paintRangeText(context, timeline, range, { x, width }) {
  const { gutter } = timeline.size;
  const text = formatDuration(range[1] - range[0]);
  const room = context.measureText(text).width + 12;
  const middle = (x(range[0]) + x(range[1])) / 2;
  const left = Math.min(Math.max(middle - room / 2, gutter), gutter + width - room);
  context.fillStyle = timeline.colors.tip;
  context.fillRect(left, OVERVIEW_HEIGHT + 3, room, RULER_HEIGHT - 6);
  context.fillStyle = timeline.colors.tipText;
  context.fillText(text, left + 6, OVERVIEW_HEIGHT + RULER_HEIGHT / 2);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintGutter(context, timeline, frame) {
  const { gutter, height } = timeline.size;
  context.fillStyle = timeline.colors.gutter;
  context.fillRect(0, 0, gutter, height);
  context.textAlign = "left";
  for (const part of frame.parts) {
    context.save();
    context.beginPath();
    context.rect(0, part.top, gutter - 1, part.bottom - part.top);
    context.clip();
    paintLaneLines(context, timeline, frame, part, 0);
    for (const l of part.lanes) paintLaneLabel(context, timeline, frame, part, l);
    context.restore();
  }
  context.fillStyle = timeline.colors.line;
  context.fillRect(gutter - 1, 0, 1, height);
  context.fillRect(0, HEAD_HEIGHT - 1, gutter, 1);
  // A line below the pinned lanes.
  for (const { bottom } of frame.parts.slice(1)) context.fillRect(0, bottom - 2, timeline.size.width, 2);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Part} part
 * @param {number} l
 */
function paintLaneLabel(context, timeline, frame, part, l) {
  const { layout, colors, size } = timeline;
  const isTall = timeline.rows.heights[l] > 1;
  const edge = ROW_HEIGHT / 2 + 4;
  // The label stays visible while any row of its lane is.
  const low = frame.down(l, layout.tops[l]) + edge;
  const high = frame.down(l, layout.ends[l]) - edge;
  const y = Math.round(Math.min(Math.max(low, part.top + edge), high));
  context.fillStyle = colors.muted;
  if (isTall) paintTriangle(context, 12, y, timeline.collapsed.has(l));
  context.fillStyle = l === timeline.focusLane && timeline.hasFocus ? colors.accent : colors.text;
  context.fillText(fittedLabel(context, labelOf(timeline, l), size.gutter - 32), 22, y);
}

/**
 * A lane's label in `room` px; of a thread its number rather than its name.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {string} label
 * @param {number} room
 */
function fittedLabel(context, label, room) {
  if (context.measureText(label).width <= room) return label;
  return cutToWidth(context, label.replace(/^(thread \S+) \([^()]*\)/, "$1"), room, LABEL_TAIL);
}

/**
 * @param {Timeline} timeline
 * @param {number} l
 */
function labelOf({ data, filters }, l) {
  const { label } = data.header.lanes[l];
  return filters.has(l) ? `${label} (${filters.get(l)?.text})` : label;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {number} x
 * @param {number} y
 * @param {boolean} isClosed
 */
function paintTriangle(context, x, y, isClosed) {
  const points = isClosed
    ? [
        [-2.5, -4],
        [3, 0],
        [-2.5, 4],
      ]
    : [
        [-4, -2.5],
        [4, -2.5],
        [0, 3],
      ];
  context.beginPath();
  for (const [dx, dy] of points) context.lineTo(x + dx, y + dy);
  context.fill();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Part} part
 * @param {number} left
 */
export function paintLaneLines(context, timeline, { down }, { lanes }, left) {
  context.fillStyle = timeline.colors.lineSoft;
  for (const l of lanes) {
    context.fillRect(left, Math.round(down(l, timeline.layout.ends[l])) - 1, timeline.size.width - left, 1);
  }
}
