// Paints one frame. Blocks are written as pixels, one row of the picture a lane's row, and stretched to their height;
// only what is wide enough to read gets text. So a frame costs O(pixels and rows in view), never O(events).

import { paintRow } from "./lod.js";
import { THEME_SHADES, TIMELINE_THEME, themeTones } from "../shared/theme.js";
import { paintArrows } from "./arrows.js";
import { eventBox, frameOf } from "./frame.js";
import { paintOverview } from "./overview.js";
import { RACE_RED, paintRaceFlags } from "./races.js";
import { SYNC_ORANGE, paintSyncTicks } from "./syncs.js";
import { TL_HEAD, TL_OVERVIEW, TL_ROW, TL_RULER, blockLabel, rulerTicks, shortLabel } from "./view.js";
import { uiDuration } from "../shared/dom.js";

const TL_FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
const TL_TEXT_FROM = 28;

// What painting needs that does not change from frame to frame.
export function createPainter(canvas, data) {
  const strip = document.createElement("canvas");
  return {
    canvas, strip, context: canvas.getContext("2d", { alpha: false }), stripContext: strip.getContext("2d"),
    labels: new Array(data.header.names.length), image: null,
  };
}

export function usePalette(tl, mode) {
  tl.colors = TIMELINE_THEME[mode];
  tl.tones = themeTones(mode);
  const dim = parseInt(tl.colors.dim.slice(1), 16);
  const packed = (((dim & 255) << 16) | (dim & 0xff00) | (dim >> 16)) >>> 0;
  tl.dimPixels = new Uint32Array(tl.tones.pixels.length).fill(packed);
}

export function paintFrame(tl) {
  const { painter, size, colors } = tl;
  const g = painter.context;
  g.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  g.font = TL_FONT;
  g.textBaseline = "middle";
  g.fillStyle = colors.bg;
  g.fillRect(0, 0, size.width, size.height);
  const frame = frameOf(tl);
  g.save();
  g.beginPath();
  g.rect(size.gutter, TL_HEAD, frame.width, size.height - TL_HEAD);
  g.clip();
  paintBands(g, tl, frame);
  paintLaneLines(g, tl, frame, size.gutter);
  paintBlocks(g, tl, frame);
  paintMarks(g, tl, frame);
  paintArrows(g, tl, frame);
  g.restore();
  paintRange(g, tl, frame);
  paintRuler(g, tl, frame);
  paintSyncTicks(g, tl, frame);
  paintRaceFlags(g, tl, frame);
  paintOverview(g, tl, frame);
  paintGutter(g, tl, frame);
}

function paintBands(g, tl, { x, t0, t1 }) {
  g.fillStyle = tl.colors.band;
  g.globalAlpha = tl.colors.bandAlpha;
  tl.steps.forEach((step, k) => {
    if (k % 2 === 0 && step.t1 > t0 && step.t0 < t1) g.fillRect(x(step.t0), TL_HEAD, Math.max(1, x(step.t1) - x(step.t0)), tl.size.height);
  });
  g.globalAlpha = 1;
}

function paintLaneLines(g, tl, { firstLane, lastLane }, left) {
  g.fillStyle = tl.colors.lineSoft;
  for (let l = firstLane; l <= lastLane; l++) {
    g.fillRect(left, Math.round(TL_HEAD + tl.layout.tops[l + 1] - tl.scroll) - 1, tl.size.width - left, 1);
  }
}

function paintBlocks(g, tl, frame) {
  const { painter, layout, size } = tl;
  const rows = visibleRows(tl, frame);
  if (!rows.length) return;
  const { pixels } = frame;
  if (painter.strip.width < pixels || painter.strip.height < rows.length || !painter.image) {
    painter.strip.width = pixels;
    painter.strip.height = Math.max(rows.length, painter.strip.height);
    painter.image = painter.stripContext.createImageData(pixels, painter.strip.height);
    painter.words = new Uint32Array(painter.image.data.buffer);
  }
  const pitch = painter.image.width;
  const words = painter.words.fill(0, 0, pitch * rows.length);
  const texts = [];
  rows.forEach(({ lane, row }, k) => paintOneRow(tl, frame, lane, row, words, k * pitch, texts));
  painter.stripContext.putImageData(painter.image, 0, 0, 0, 0, pixels, rows.length);
  g.imageSmoothingEnabled = false;
  rows.forEach(({ lane, row }, k) => {
    g.drawImage(painter.strip, 0, k, pixels, 1, size.gutter, Math.round(frame.y(lane, row)), pixels / size.ratio, TL_ROW - 1);
  });
  paintTexts(g, tl, frame, texts);
}

function visibleRows(tl, { firstLane, lastLane, y }) {
  const rows = [];
  for (let lane = firstLane; lane <= lastLane; lane++) {
    for (let row = 0; row < tl.layout.shown[lane]; row++) {
      const at = y(lane, row);
      if (at > TL_HEAD - TL_ROW && at < tl.size.height) rows.push({ lane, row });
    }
  }
  return rows;
}

function paintOneRow(tl, frame, lane, row, words, base, texts) {
  const { index, chosen } = tl;
  const from = TL_TEXT_FROM * tl.size.ratio;
  const r = index.laneRow[lane] + row;
  const y = frame.y(lane, row);
  const collect = (source, isDim) => (p, x0, x1) => {
    if (isDim && chosen.keep[source.at[p]]) return;
    texts.push({ i: source.at[p], tone: source.tone[p], x0, x1, y, isDim });
  };
  if (chosen === null) {
    paintRow(index, r, frame.t0, frame.w, words, base, frame.pixels, tl.tones.pixels, 1, collect(index, false), from);
    return;
  }
  paintRow(index, r, frame.t0, frame.w, words, base, frame.pixels, tl.dimPixels, 1, collect(index, true), from);
  paintRow(chosen.index, r, frame.t0, frame.w, words, base, frame.pixels, tl.tones.pixels, 1, collect(chosen.index, false), from);
}

function paintTexts(g, tl, frame, texts) {
  const { ratio, gutter } = tl.size;
  g.textAlign = "left";
  for (const { i, tone, x0, x1, y, isDim } of texts) {
    const left = Math.max(0, x0) / ratio;
    const room = Math.min(frame.width, x1 / ratio) - left - 8;
    const text = fittedText(g, tl, tl.data.name[i], room);
    if (!text) continue;
    g.fillStyle = isDim ? tl.colors.muted : tl.tones.ink[tone];
    g.fillText(text, Math.round(gutter + left + 4), Math.round(y) + TL_ROW / 2);
  }
}

// The label of a name, cut to `room` px; "" where not even a few letters fit.
function fittedText(g, tl, name, room) {
  const label = (tl.painter.labels[name] ??= measuredLabel(g, tl.data.header.names[name]));
  if (label.width <= room) return label.text;
  if (label.shortWidth <= room) return label.short;
  let letters = Math.floor((label.short.length * room) / label.shortWidth);
  while (letters >= 2 && cutWidth(g, label, letters) > room) letters--;
  return letters < 2 ? "" : `${label.short.slice(0, letters)}…`;
}

function cutWidth(g, label, letters) {
  return (label.cuts[letters] ??= g.measureText(`${label.short.slice(0, letters)}…`).width);
}

function measuredLabel(g, name) {
  const text = blockLabel(name);
  const short = shortLabel(text);
  return { text, short, cuts: [], width: g.measureText(text).width, shortWidth: g.measureText(short).width };
}

// Outlines of kernels that race, of the event under the pointer, of the one in focus and of the selected one.
function paintMarks(g, tl, frame) {
  for (const { event } of tl.syncs) if (event >= 0) outline(g, tl, frame, event, SYNC_ORANGE, 1.5);
  for (const { event } of tl.races) if (event >= 0) outline(g, tl, frame, event, RACE_RED, 2.5);
  if (tl.hover !== null && tl.hover !== tl.selected) outline(g, tl, frame, tl.hover, tl.colors.text, 1);
  if (tl.selected !== null) outline(g, tl, frame, tl.selected, tl.colors.accent, 2.5);
  if (tl.focused !== null && tl.focused !== tl.selected && tl.hasFocus) outline(g, tl, frame, tl.focused, tl.colors.text, 2, [4, 2]);
}

function outline(g, tl, frame, i, color, width, dash = []) {
  const box = eventBox(tl, frame, i);
  if (box === null) return;
  g.strokeStyle = color;
  g.lineWidth = width;
  g.setLineDash(dash);
  const left = Math.max(box.x, tl.size.gutter - 4);
  g.strokeRect(left, box.y, Math.max(2, Math.min(box.x + box.width, tl.size.width + 4) - left), TL_ROW - 1);
  g.setLineDash([]);
}

function paintRange(g, tl, { x, width }) {
  if (tl.range === null) return;
  const { gutter, height } = tl.size;
  const clip = (value) => Math.min(Math.max(value, gutter), gutter + width);
  const [left, right] = tl.range.map((t) => clip(x(t)));
  if (right <= gutter || left >= gutter + width) return;
  g.fillStyle = tl.colors.accent;
  g.globalAlpha = tl.colors.rangeAlpha;
  g.fillRect(left, TL_OVERVIEW, right - left, height - TL_OVERVIEW);
  g.globalAlpha = 1;
  if (left > gutter) g.fillRect(left - 0.5, TL_OVERVIEW, 1, height);
  if (right < gutter + width) g.fillRect(right - 0.5, TL_OVERVIEW, 1, height);
}

function paintRuler(g, tl, { x, t0, t1, width }) {
  const { gutter } = tl.size;
  const { ticks } = rulerTicks(t0, t1, width);
  g.fillStyle = tl.colors.line;
  g.fillRect(gutter, TL_HEAD - 1, width, 1);
  g.textAlign = "left";
  for (const { t, text } of ticks) {
    const at = Math.round(x(t));
    g.fillStyle = tl.colors.line;
    g.fillRect(at, TL_HEAD - 8, 1, 8);
    g.fillStyle = tl.colors.muted;
    if (at + 60 < tl.size.width) g.fillText(text, at + 4, TL_OVERVIEW + TL_RULER / 2);
  }
  if (tl.range !== null && tl.range[1] > t0 && tl.range[0] < t1) paintRangeText(g, tl, x, width);
}

function paintRangeText(g, tl, x, width) {
  const { gutter } = tl.size;
  const text = uiDuration(tl.range[1] - tl.range[0]);
  const room = g.measureText(text).width + 12;
  const middle = (x(tl.range[0]) + x(tl.range[1])) / 2;
  const left = Math.min(Math.max(middle - room / 2, gutter), gutter + width - room);
  g.fillStyle = tl.colors.tip;
  g.fillRect(left, TL_OVERVIEW + 3, room, TL_RULER - 6);
  g.fillStyle = tl.colors.tipText;
  g.fillText(text, left + 6, TL_OVERVIEW + TL_RULER / 2);
}

function paintGutter(g, tl, { firstLane, lastLane }) {
  const { gutter, height } = tl.size;
  g.fillStyle = tl.colors.gutter;
  g.fillRect(0, 0, gutter, height);
  g.save();
  g.beginPath();
  g.rect(0, TL_HEAD, gutter - 1, height - TL_HEAD);
  g.clip();
  paintLaneLines(g, tl, { firstLane, lastLane }, 0);
  g.textAlign = "left";
  for (let l = firstLane; l <= lastLane; l++) paintLaneLabel(g, tl, l);
  g.restore();
  g.fillStyle = tl.colors.line;
  g.fillRect(gutter - 1, 0, 1, height);
  g.fillRect(0, TL_HEAD - 1, gutter, 1);
}

function paintLaneLabel(g, tl, l) {
  const { layout, colors, size } = tl;
  const isTall = tl.rows.heights[l] > 1;
  // The label stays in sight while any row of its lane is.
  const low = TL_HEAD + layout.tops[l] - tl.scroll + TL_ROW / 2 + 4;
  const high = TL_HEAD + layout.tops[l + 1] - tl.scroll - TL_ROW / 2 - 4;
  const y = Math.round(Math.min(Math.max(low, TL_HEAD + TL_ROW / 2 + 4), high));
  g.fillStyle = colors.muted;
  if (isTall) paintTriangle(g, 12, y, tl.collapsed.has(l));
  g.fillStyle = l === tl.focusLane && tl.hasFocus ? colors.accent : colors.text;
  g.fillText(cutToWidth(g, tl.data.header.lanes[l].label, size.gutter - 32), 22, y);
}

function paintTriangle(g, x, y, isClosed) {
  const points = isClosed ? [[-2.5, -4], [3, 0], [-2.5, 4]] : [[-4, -2.5], [4, -2.5], [0, 3]];
  g.beginPath();
  points.forEach(([dx, dy], k) => (k ? g.lineTo(x + dx, y + dy) : g.moveTo(x + dx, y + dy)));
  g.fill();
}

function cutToWidth(g, text, room) {
  let shown = text.slice(0, 100);
  if (shown === text && g.measureText(shown).width <= room) return shown;
  while (shown.length > 1 && g.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
  return `${shown}…`;
}

// Groups that occur in the trace, for the legend: [label, css colour].
export function legendEntries(tl) {
  const seen = new Uint8Array(TIMELINE_THEME.groups.length);
  for (const tone of tl.index.tone) seen[(tone / THEME_SHADES) | 0] = 1;
  return TIMELINE_THEME.groups.flatMap((group, k) => (seen[k] ? [[group.label, tl.tones.css[k * THEME_SHADES]]] : []));
}
