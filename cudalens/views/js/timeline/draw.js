// Paint one frame. Blocks are written as pixels, one row of the picture a lane's row, and stretched to their height;
// only what is wide enough to read gets text. So a frame costs O(pixels and rows in view), never O(events).

import { NUM_SHADES, THEME } from "../shared/theme.js";
import { paintArrows } from "./arrows.js";
import { paintGutter, paintLaneLines, paintRuler } from "./axes.js";
import { eventBox, frameOf } from "./frame.js";
import { paintRow } from "./lod.js";
import { paintUserMarks } from "./marks.js";
import { paintOverview } from "./overview.js";
import { stripOf } from "./painter.js";
import { paintRaceFlags, RACE_RED } from "./races.js";
import { paintSyncTicks, SYNC_ORANGE } from "./syncs.js";
import { HEAD_HEIGHT, OVERVIEW_HEIGHT, ROW_HEIGHT } from "./view.js";
import { blockLabel, enclosingText, shortLabel } from "./words.js";

/** @import { Frame, Part } from "./frame.js" */
/** @import { RowIndex } from "./lod.js" */
/** @import { Label } from "./painter.js" */
/** @import { Timeline } from "./state.js" */

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const MIN_TEXT_PX = 28;

/** @param {Timeline} timeline */
export function paintFrame(timeline) {
  const { painter, size, colors } = timeline;
  const context = painter.context;
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = colors.bg;
  context.fillRect(0, 0, size.width, size.height);
  const frame = frameOf(timeline);
  for (const part of frame.parts) paintPart(context, timeline, frame, part);
  paintRange(context, timeline, frame);
  paintRuler(context, timeline, frame);
  paintUserMarks(context, timeline, frame);
  paintSyncTicks(context, timeline, frame);
  paintRaceFlags(context, timeline, frame);
  paintOverview(context, timeline, frame);
  paintGutter(context, timeline, frame);
}

/**
 * The lanes that scroll, or the pinned ones.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Part} part
 */
function paintPart(context, timeline, frame, part) {
  const { gutter } = timeline.size;
  context.save();
  context.beginPath();
  context.rect(gutter, part.top, frame.width, part.bottom - part.top);
  context.clip();
  paintBands(context, timeline, frame);
  paintLaneLines(context, timeline, frame, part, gutter);
  paintBlocks(context, timeline, frame, part);
  paintMarks(context, timeline, frame);
  paintArrows(context, timeline, frame);
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
function paintBands(context, timeline, { x, t0, t1 }) {
  context.fillStyle = timeline.colors.band;
  context.globalAlpha = timeline.colors.bandAlpha;
  timeline.steps.forEach((step, k) => {
    if (k % 2 === 0 && step.t1 > t0 && step.t0 < t1)
      context.fillRect(x(step.t0), HEAD_HEIGHT, Math.max(1, x(step.t1) - x(step.t0)), timeline.size.height);
  });
  context.globalAlpha = 1;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Part} part
 */
function paintBlocks(context, timeline, frame, part) {
  const { painter, size } = timeline;
  const rows = visibleRows(timeline, frame, part);
  if (!rows.length) return;
  const { pixels: width } = frame;
  const { image, pixels } = stripOf(painter, width, rows.length);
  pixels.fill(0, 0, image.width * rows.length);
  const texts = rows.flatMap(({ lane, row }, k) => paintOneRow(timeline, frame, lane, row, pixels, k * image.width));
  painter.stripContext.putImageData(image, 0, 0, 0, 0, width, rows.length);
  context.imageSmoothingEnabled = false;
  const [left, wide] = [size.gutter, width / size.ratio];
  rows.forEach(({ lane, row }, k) => {
    const top = Math.round(frame.y(lane, row));
    context.drawImage(painter.stripCanvas, 0, k, width, 1, left, top, wide, ROW_HEIGHT - 1);
  });
  paintTexts(context, timeline, frame, texts);
}

/**
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {Part} part
 */
function visibleRows(timeline, { y }, { lanes, top, bottom }) {
  /** @type {{ lane: number, row: number }[]} */
  const rows = [];
  for (const lane of lanes) {
    for (let row = 0; row < timeline.layout.shown[lane]; row++) {
      const at = y(lane, row);
      if (at > top - ROW_HEIGHT && at < bottom) rows.push({ lane, row });
    }
  }
  return rows;
}

/**
 * @typedef {{ i: number, tone: number, x0: number, x1: number, y: number, isDim: boolean }} BlockText Device pixels.
 */

/**
 * Paints a row into `pixels` from `base` on. Returns the events that are wide enough for text.
 *
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {number} lane
 * @param {number} row
 * @param {Uint32Array} pixels
 * @param {number} base
 * @returns {BlockText[]}
 */
function paintOneRow(timeline, frame, lane, row, pixels, base) {
  const { index, chosen, tones } = timeline;
  const minWidth = MIN_TEXT_PX * timeline.size.ratio;
  const y = frame.y(lane, row);
  const target = { t0: frame.t0, w: frame.w, width: frame.pixels, out: pixels, base, minWidth };
  /** @type {BlockText[]} */
  const texts = [];
  const paint = (
    /** @type {RowIndex} */ source,
    /** @type {Uint32Array} */ colors,
    /** @type {Uint8Array | null} */ skip,
  ) =>
    paintRow(source, index.laneRow[lane] + row, target, colors, (p, x0, x1) => {
      if (skip?.[source.at[p]]) return;
      texts.push({ i: source.at[p], tone: source.tone[p], x0, x1, y, isDim: skip !== null });
    });
  if (chosen === null) paint(index, tones.pixels, null);
  else {
    paint(index, timeline.dimPixels, chosen.keep);
    paint(chosen.index, tones.pixels, null);
  }
  return texts;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {BlockText[]} texts
 */
function paintTexts(context, timeline, frame, texts) {
  const { ratio, gutter } = timeline.size;
  context.textAlign = "left";
  for (const { i, tone, x0, x1, y, isDim } of texts) {
    const left = Math.max(0, x0) / ratio;
    const room = Math.min(frame.width, x1 / ratio) - left - 8;
    const text = enclosingText(timeline.data, i) ?? fittedText(context, timeline, timeline.data.name[i], room);
    if (!text) continue;
    context.fillStyle = isDim ? timeline.colors.muted : timeline.tones.ink[tone];
    context.fillText(text, Math.round(gutter + left + 4), Math.round(y) + ROW_HEIGHT / 2);
  }
}

/**
 * The label of a name, cut to `room` px; "" where not even a few letters fit.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {number} name
 * @param {number} room
 * @returns {string}
 */
function fittedText(context, timeline, name, room) {
  const { labels } = timeline.painter;
  const label = labels[name] ?? measuredLabel(context, timeline.data.header, name);
  labels[name] = label;
  if (label.width <= room) return label.text;
  if (label.shortWidth <= room) return label.short;
  let letters = Math.floor((label.short.length * room) / label.shortWidth);
  while (letters >= 2 && cutWidth(context, label, letters) > room) letters--;
  return letters < 2 ? "" : `${label.short.slice(0, letters)}…`;
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Label} label
 * @param {number} letters
 */
function cutWidth(context, label, letters) {
  label.cuts[letters] ??= context.measureText(`${label.short.slice(0, letters)}…`).width;
  return label.cuts[letters];
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline["data"]["header"]} header
 * @param {number} name
 * @returns {Label}
 */
function measuredLabel(context, header, name) {
  const brief = header.short[name];
  const text = brief ?? blockLabel(header.names[name]);
  const short = brief ?? shortLabel(text);
  return {
    text,
    short,
    cuts: [],
    width: context.measureText(text).width,
    shortWidth: context.measureText(short).width,
  };
}

/**
 * Outlines of kernels that race, of the event under the pointer, of the one in focus and of the selected one.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
function paintMarks(context, timeline, frame) {
  for (const { event } of timeline.syncs) if (event >= 0) outline(context, timeline, frame, event, SYNC_ORANGE, 1.5);
  for (const { event } of timeline.races) if (event >= 0) outline(context, timeline, frame, event, RACE_RED, 2.5);
  if (timeline.hover !== null && timeline.hover !== timeline.selected)
    outline(context, timeline, frame, timeline.hover, timeline.colors.text, 1);
  if (timeline.selected !== null) outline(context, timeline, frame, timeline.selected, timeline.colors.accent, 2.5);
  if (timeline.focused !== null && timeline.focused !== timeline.selected && timeline.hasFocus)
    outline(context, timeline, frame, timeline.focused, timeline.colors.text, 2, [4, 2]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 * @param {number} i
 * @param {string} color
 * @param {number} width
 * @param {number[]} [dash]
 */
function outline(context, timeline, frame, i, color, width, dash = []) {
  const box = eventBox(timeline, frame, i);
  if (box === null) return;
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  const left = Math.max(box.x, timeline.size.gutter - 4);
  context.strokeRect(
    left,
    box.y,
    Math.max(2, Math.min(box.x + box.width, timeline.size.width + 4) - left),
    ROW_HEIGHT - 1,
  );
  context.setLineDash([]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
function paintRange(context, timeline, { x, width }) {
  if (timeline.range === null) return;
  const { gutter, height } = timeline.size;
  const clip = (/** @type {number} */ value) => Math.min(Math.max(value, gutter), gutter + width);
  const [left, right] = timeline.range.map((t) => clip(x(t)));
  if (right <= gutter || left >= gutter + width) return;
  context.fillStyle = timeline.colors.accent;
  context.globalAlpha = timeline.colors.rangeAlpha;
  context.fillRect(left, OVERVIEW_HEIGHT, right - left, height - OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  if (left > gutter) context.fillRect(left - 0.5, OVERVIEW_HEIGHT, 1, height);
  if (right < gutter + width) context.fillRect(right - 0.5, OVERVIEW_HEIGHT, 1, height);
}

/**
 * Groups that occur in the trace, and the marks of waits, for the legend.
 *
 * @param {Timeline} timeline
 * @returns {[label: string, color: string][]}
 */
export function legendEntries(timeline) {
  const seen = new Uint8Array(THEME.groups.length);
  for (const tone of timeline.index.tone) seen[(tone / NUM_SHADES) | 0] = 1;
  /** @type {[label: string, color: string][]} */
  const entries = [];
  THEME.groups.forEach((group, k) => {
    if (seen[k]) entries.push([group.label, timeline.tones.css[k * NUM_SHADES]]);
  });
  if (timeline.syncs.length) entries.push(["Host waits for GPU", SYNC_ORANGE]);
  return entries;
}
