// Paints the lines of the pool map that are on screen, pixel by pixel: what is narrower than a pixel shares it with its
// neighbours, and the largest of them gives its colour. The cost follows the screen and the blocks on it.

import { mmFirstAfter, mmLineAt, MM_BAR, MM_HEAD, MM_LINE } from "./layout.js";
import { mmPacked, MM_GROUND } from "./colors.js";
import { mmNames } from "./moment.js";
import { uiPlural, uiSize } from "../shared/dom.js";

const MM_HATCH = 6;
const [MM_SOLID, MM_GAP, MM_PENDING] = [0, 1, 2];
const MM_MIN_LABEL = 64;
const MM_MAX_LABELS = 400;

/**
 * Draws the part [top, top + height) of a layout.
 *
 * @param {CanvasRenderingContext2D} context Of a canvas of layout.width * ratio by height * ratio pixels.
 * @param {object} shown {data, moment, layout, coloring, codes (colour per life of the moment), isDim (likewise, or null),
 *   theme, top, height, ratio, text}
 */
export function mmDraw(context, shown) {
  const { layout, theme, top, height, ratio } = shown;
  const width = Math.floor(layout.width * ratio);
  const rows = Math.floor(height * ratio);
  const image = new ImageData(Math.max(width, 1), Math.max(rows, 1));
  const pixels = new Uint32Array(image.data.buffer);
  const ground = MM_GROUND[theme];
  const painter = { width, line: new Uint32Array(width), kind: new Uint8Array(width), weight: new Float32Array(width),
    gap: mmPacked(ground.gap), hatch: mmPacked(ground.hatch), dim: mmPacked(ground.dim), bg: 0 };
  const labels = [];
  const from = Math.max(mmLineAt(layout.lines, top), 0);
  for (let k = from; k < layout.lines.length && layout.lines[k].y < top + height; k++) {
    mmPaintLine(shown, painter, layout.lines[k], labels);
    mmCopyLine(pixels, painter, Math.round((layout.lines[k].y - top) * ratio), Math.round(MM_BAR * ratio), rows);
  }
  context.putImageData(image, 0, 0);
  mmWrite(context, shown, labels);
}

// One line's pixels: gaps first, blocks over them.
function mmPaintLine(shown, painter, line, labels) {
  const { data, moment, layout, ratio, codes, isDim, coloring } = shown;
  const { lives } = data;
  const { part, bytesPerPx } = layout;
  const scale = ratio / bytesPerPx;
  painter.line.fill(painter.bg);
  painter.kind.fill(MM_SOLID);
  painter.weight.fill(0);
  for (let p = line.first; p < line.end; p++) {
    const strip = moment.strips[part.strip[p]];
    const x = part.x[p] * ratio;
    const [begin, bytes] = [strip.addr + part.from[p], part.bytes[p]];
    const right = Math.min(Math.max(Math.round(x + bytes * scale), Math.round(x) + 1), painter.width);
    for (let at = Math.round(x); at < right; at++) {
      painter.line[at] = painter.gap;
      painter.kind[at] = MM_GAP;
    }
    for (let k = mmFirstAfter(lives, moment.lives, strip.first, strip.end, begin); k < strip.end; k++) {
      const life = moment.lives[k];
      const offset = lives.addr[life] - begin;
      if (offset >= bytes) break;
      const low = x + Math.max(offset, 0) * scale;
      const high = x + Math.min(offset + lives.bytes[life], bytes) * scale;
      const first = Math.round(low);
      const last = Math.min(Math.round(high), right);
      const isPending = lives.released[life] <= moment.row;
      const isFaint = isDim !== null && isDim[k];
      const color = isFaint ? painter.dim : coloring.pixels[codes[k]];
      if (last - first < 1) {
        const at = Math.min(Math.floor(low), painter.width - 1);
        if (high - low > painter.weight[at]) {
          painter.weight[at] = high - low;
          painter.line[at] = color;
          painter.kind[at] = isPending ? MM_PENDING : MM_SOLID;
        }
        continue;
      }
      for (let at = first; at < last; at++) {
        painter.line[at] = color;
        painter.kind[at] = isPending ? MM_PENDING : MM_SOLID;
        painter.weight[at] = 1;
      }
      if (last - first > 3 * ratio) {
        for (let at = last - Math.round(ratio); at < last; at++) painter.line[at] = isFaint ? painter.bg : coloring.edges[codes[k]];
        if ((last - first) / ratio > MM_MIN_LABEL && labels.length < MM_MAX_LABELS && !isFaint && !isPending) {
          labels.push({ life, code: codes[k], x: first / ratio, width: (last - first) / ratio, y: line.y });
        }
      }
    }
  }
}

function mmCopyLine(pixels, painter, y0, height, rows) {
  const { width, line, kind } = painter;
  for (let y = Math.max(y0, 0); y < Math.min(y0 + height, rows); y++) {
    const at = y * width;
    pixels.set(line, at);
    for (let x = 0; x < width; x++) {
      if (kind[x] === MM_SOLID) continue;
      const isLine = (x + y) % MM_HATCH === 0;
      if (kind[x] === MM_GAP) {
        if (isLine) pixels[at + x] = painter.hatch;
      } else if ((x + y) % MM_HATCH < 2) pixels[at + x] = painter.bg;
    }
  }
}

// Headings of groups, and names or sizes in blocks that are wide enough.
function mmWrite(context, shown, labels) {
  const { data, layout, coloring, top, height, ratio, ink, font } = shown;
  context.save();
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  context.font = `600 12px ${font}`;
  context.fillStyle = ink;
  for (const { y, group } of layout.heads) {
    if (y + MM_HEAD < top || y > top + height) continue;
    const free = uiSize(Math.max(group.bytes - group.used, 0));
    const text = `${group.label}: ${uiSize(group.bytes)} in ${uiPlural(group.strips.length, "segment")}, ${free} free`;
    context.fillText(mmShort(context, text, layout.width), 0, y - top + MM_HEAD / 2 + 1);
  }
  context.font = `11px ${font}`;
  for (const { life, code, x, width, y } of labels) {
    const [r, g, b] = coloring.rgb[code];
    context.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
    const text = mmShort(context, mmBlockName(data, life), width - 8);
    if (text) context.fillText(text, x + 4, y - top + MM_LINE / 2 - 0.5);
  }
  context.restore();
}

function mmShort(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let n = Math.min(text.length, Math.floor(width / 3));
  while (n > 2 && context.measureText(`${text.slice(0, n)}…`).width > width) n--;
  return n > 2 ? `${text.slice(0, n)}…` : "";
}

function mmBlockName(data, life) {
  const [name] = mmNames(data, life);
  return name ? `${name} · ${uiSize(data.lives.bytes[life])}` : uiSize(data.lives.bytes[life]);
}
