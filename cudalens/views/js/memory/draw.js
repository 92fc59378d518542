// Paint the lines of the pool map that are on screen, pixel by pixel: blocks narrower than a pixel share it, and the
// largest of them gives its colour. The cost follows the screen and the blocks on it.

import { cutToWidth } from "../shared/dom.js";
import { formatBytes, formatPlural } from "../shared/format.js";
import { BACKGROUND_COLORS, packedColor } from "./colors.js";
import { variableNames } from "./grouping.js";
import { BAR_HEIGHT, firstEndingAfter, HEADING_HEIGHT, LINE_HEIGHT, lineAt } from "./layout.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { Coloring } from "./colors.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { Layout, Line } from "./layout.js" */
/** @import { Moment } from "./moment.js" */

/**
 * What a paint shows: the part from `top` on, `height` px, of a layout.
 *
 * @typedef {object} Shown
 * @property {MemoryData} data
 * @property {Moment} moment
 * @property {Layout} layout
 * @property {Coloring} coloring
 * @property {Uint16Array} codes Class of each allocation of the moment.
 * @property {Uint8Array | null} isDim Whether each is dimmed.
 * @property {ThemeName} theme
 * @property {number} top px
 * @property {number} height px
 * @property {number} ratio Device pixels per px.
 * @property {string} ink CSS colour of text.
 * @property {string} font CSS font family.
 */

/**
 * One line in the making: a colour, a kind and the width of the widest block for each pixel.
 *
 * @typedef {object} LinePainter
 * @property {number} width Device pixels.
 * @property {Uint32Array} line
 * @property {Uint8Array} kind
 * @property {Float32Array} weight
 * @property {number} gap Packed colour.
 * @property {number} hatch Packed colour.
 * @property {number} dim Packed colour.
 */

/** @typedef {{ allocation: number, code: number, x: number, width: number, y: number }} BlockLabel px */

const HATCH_PX = 6;
const [SOLID, GAP, PENDING] = [0, 1, 2];
const BACKGROUND = 0;
const MIN_LABEL_PX = 64;
/** Letters of a block's name from which on it is worth reading. */
const MIN_LETTERS = 10;
/** Share of the letters of a block's label that its end has: names of tensors of one state begin alike. */
const BLOCK_TAIL = 0.75;
const MAX_LABELS = 400;

/**
 * @param {CanvasRenderingContext2D} context Of a canvas of layout.width * ratio by height * ratio pixels.
 * @param {Shown} shown
 */
export function drawPool(context, shown) {
  const { layout, top, height, ratio } = shown;
  const painter = createLinePainter(shown);
  const rows = Math.floor(height * ratio);
  const image = new ImageData(Math.max(painter.width, 1), Math.max(rows, 1));
  const pixels = new Uint32Array(image.data.buffer);
  /** @type {BlockLabel[]} */
  const labels = [];
  const from = Math.max(lineAt(layout.lines, top), 0);
  for (let k = from; k < layout.lines.length && layout.lines[k].y < top + height; k++) {
    const line = layout.lines[k];
    paintLine(shown, painter, line, labels);
    copyLine(pixels, painter, Math.round((line.y - top) * ratio), Math.round(BAR_HEIGHT * ratio), rows);
  }
  context.putImageData(image, 0, 0);
  context.save();
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  writeHeadings(context, shown);
  writeLabels(context, shown, labels);
  context.restore();
}

/**
 * @param {Shown} shown
 * @returns {LinePainter}
 */
function createLinePainter({ layout, theme, ratio }) {
  const width = Math.floor(layout.width * ratio);
  const { gap, hatch, dim } = BACKGROUND_COLORS[theme];
  return {
    width,
    line: new Uint32Array(width),
    kind: new Uint8Array(width),
    weight: new Float32Array(width),
    gap: packedColor(gap),
    hatch: packedColor(hatch),
    dim: packedColor(dim),
  };
}

/**
 * One line's pixels: gaps first, blocks over them.
 *
 * @param {Shown} shown
 * @param {LinePainter} painter
 * @param {Line} line
 * @param {BlockLabel[]} labels Blocks that are wide enough for text are added.
 */
function paintLine(shown, painter, line, labels) {
  painter.line.fill(BACKGROUND);
  painter.kind.fill(SOLID);
  painter.weight.fill(0);
  for (let p = line.first; p < line.end; p++) paintPart(shown, painter, p, line.y, labels);
}

/**
 * @param {Shown} shown
 * @param {LinePainter} painter
 * @param {number} p Part of the layout.
 * @param {number} y
 * @param {BlockLabel[]} labels
 */
function paintPart(shown, painter, p, y, labels) {
  const { data, moment, layout, ratio } = shown;
  const { addr, bytes: sizes } = data.allocations;
  const { part } = layout;
  const strip = moment.strips[part.strip[p]];
  const scale = ratio / layout.bytesPerPx;
  const x = part.x[p] * ratio;
  const [begin, bytes] = [strip.addr + part.from[p], part.bytes[p]];
  const right = Math.min(Math.max(Math.round(x + bytes * scale), Math.round(x) + 1), painter.width);
  painter.line.fill(painter.gap, Math.round(x), right);
  painter.kind.fill(GAP, Math.round(x), right);
  const first = firstEndingAfter(data.allocations, moment.allocations, strip.first, strip.end, begin);
  for (let k = first; k < strip.end; k++) {
    const i = moment.allocations[k];
    const offset = addr[i] - begin;
    if (offset >= bytes) break;
    const low = x + Math.max(offset, 0) * scale;
    const high = x + Math.min(offset + sizes[i], bytes) * scale;
    paintBlock(shown, painter, k, { low, high, right, y }, labels);
  }
}

/**
 * @param {Shown} shown
 * @param {LinePainter} painter
 * @param {number} k Place in the moment's allocations.
 * @param {{ low: number, high: number, right: number, y: number }} place Device pixels, and y in px.
 * @param {BlockLabel[]} labels
 */
function paintBlock({ data, moment, ratio, codes, isDim, coloring }, painter, k, { low, high, right, y }, labels) {
  const allocation = moment.allocations[k];
  const isPending = data.allocations.released[allocation] <= moment.row;
  const isFaint = isDim?.[k] === 1;
  const color = isFaint ? painter.dim : coloring.pixels[codes[k]];
  const kind = isPending ? PENDING : SOLID;
  const first = Math.round(low);
  const last = Math.min(Math.round(high), right);
  if (last - first < 1) {
    const at = Math.min(Math.floor(low), painter.width - 1);
    if (high - low > painter.weight[at]) {
      painter.weight[at] = high - low;
      painter.line[at] = color;
      painter.kind[at] = kind;
    }
    return;
  }
  painter.line.fill(color, first, last);
  painter.kind.fill(kind, first, last);
  painter.weight.fill(1, first, last);
  if (last - first <= 3 * ratio) return;
  painter.line.fill(isFaint ? BACKGROUND : coloring.edges[codes[k]], last - Math.round(ratio), last);
  const width = (last - first) / ratio;
  if (width > MIN_LABEL_PX && labels.length < MAX_LABELS && !isFaint && !isPending) {
    labels.push({ allocation, code: codes[k], x: first / ratio, width, y });
  }
}

/**
 * Copies a line to each of its rows of pixels, with the hatching of gaps and pending blocks.
 *
 * @param {Uint32Array} pixels
 * @param {LinePainter} painter
 * @param {number} y0
 * @param {number} height
 * @param {number} rows
 */
function copyLine(pixels, painter, y0, height, rows) {
  const { width, line, kind } = painter;
  for (let y = Math.max(y0, 0); y < Math.min(y0 + height, rows); y++) {
    const at = y * width;
    pixels.set(line, at);
    for (let x = 0; x < width; x++) {
      if (kind[x] === SOLID) continue;
      const phase = (x + y) % HATCH_PX;
      if (kind[x] === GAP) {
        if (phase === 0) pixels[at + x] = painter.hatch;
      } else if (phase < 2) pixels[at + x] = BACKGROUND;
    }
  }
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Shown} shown
 */
function writeHeadings(context, { layout, top, height, ink, font }) {
  context.font = `600 12px ${font}`;
  context.fillStyle = ink;
  for (const { y, group } of layout.heads) {
    if (y + HEADING_HEIGHT < top || y > top + height) continue;
    const segments = formatPlural(group.strips.length, "segment");
    const free = formatBytes(Math.max(group.bytes - group.used, 0));
    const text = `${group.label}: ${formatBytes(group.bytes)} in ${segments}, ${free} free`;
    context.fillText(cutToWidth(context, text, layout.width), 0, y - top + HEADING_HEIGHT / 2 + 1);
  }
}

/**
 * Names or sizes in blocks that are wide enough.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {Shown} shown
 * @param {BlockLabel[]} labels
 */
function writeLabels(context, { data, coloring, top, font }, labels) {
  context.font = `11px ${font}`;
  for (const { allocation, code, x, width, y } of widestOfEach(labels)) {
    const [r, g, b] = coloring.rgb[code];
    context.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
    const text = blockLabel(context, data, allocation, width - 8);
    if (text) context.fillText(text, x + 4, y - top + LINE_HEIGHT / 2 - 0.5);
  }
}

/**
 * The name and size of a block; its size where the name would be cut to a few letters, which say nothing.
 *
 * @param {CanvasRenderingContext2D} context
 * @param {MemoryData} data
 * @param {number} allocation
 * @param {number} room px
 */
function blockLabel(context, data, allocation, room) {
  const whole = blockName(data, allocation);
  const text = cutToWidth(context, whole, room, BLOCK_TAIL);
  const size = formatBytes(data.allocations.bytes[allocation]);
  if (text === whole || text.length >= size.length + MIN_LETTERS) return text;
  return context.measureText(size).width <= room ? size : "";
}

/**
 * One label for each block: that of its widest part, where it takes several lines.
 *
 * @param {BlockLabel[]} labels
 */
function widestOfEach(labels) {
  /** @type {Map<number, BlockLabel>} */
  const widest = new Map();
  for (const label of labels) {
    const other = widest.get(label.allocation);
    if (other === undefined || label.width > other.width) widest.set(label.allocation, label);
  }
  return widest.values();
}

/**
 * @param {MemoryData} data
 * @param {number} allocation
 */
function blockName(data, allocation) {
  const [name] = variableNames(data, allocation);
  const size = formatBytes(data.allocations.bytes[allocation]);
  return name ? `${name} · ${size}` : size;
}
