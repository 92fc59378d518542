// Lay out the strips of memory like words in a text. A strip that is longer than a line takes several, a shorter one is
// never broken; each group (pool, stream, small or large) begins with a heading. Equal areas are equal numbers of
// bytes.

import { poolText } from "./grouping.js";

/** @import { Allocations, MemoryData } from "./data.js" */
/** @import { Moment } from "./moment.js" */

/**
 * Strips of one pool and kind.
 *
 * @typedef {object} StripGroup
 * @property {number[]} strips Indices into the moment's strips.
 * @property {number} bytes
 * @property {number} used Bytes.
 * @property {number} pool
 * @property {number} kind
 * @property {string} label
 */

/** @typedef {{ y: number, first: number, end: number }} Line A range of parts. */
/** @typedef {{ x: number, y: number, width: number, height: number }} Box px */

/**
 * @typedef {object} Layout
 * @property {{ y: number, group: StripGroup }[]} heads
 * @property {Line[]} lines
 * @property {{ strip: number[], from: number[], bytes: number[], x: number[] }} part Columns: strip, its first byte,
 *   px.
 * @property {number} height px
 * @property {number} width px
 * @property {number} bytesPerPx
 */

/**
 * A block, or a gap where `allocation` is -1.
 *
 * @typedef {object} Hit
 * @property {number} strip Index into the moment's strips.
 * @property {number} allocation
 * @property {number} from First byte, from header.base.
 * @property {number} bytes
 */

export const LINE_HEIGHT = 16;
export const BAR_HEIGHT = 14;
export const HEADING_HEIGHT = 22;
const KIND_LABELS = ["", " · small blocks", " · large blocks"];

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @returns {StripGroup[]}
 */
export function groupStrips(data, moment) {
  /** @type {Map<string, StripGroup>} */
  const groups = new Map();
  moment.strips.forEach((strip, k) => {
    const key = `${strip.pool}/${strip.kind}`;
    const group = groups.get(key) ?? {
      strips: [],
      bytes: 0,
      used: 0,
      pool: strip.pool,
      kind: strip.kind,
      label: poolText(data.header.pools[strip.pool]) + KIND_LABELS[strip.kind],
    };
    group.strips.push(k);
    group.bytes += strip.bytes;
    group.used += strip.used;
    groups.set(key, group);
  });
  return [...groups.values()].sort((a, b) => a.pool - b.pool || b.kind - a.kind);
}

/**
 * Lays the strips of `moment` out in lines of `width` px.
 *
 * @param {Moment} moment
 * @param {StripGroup[]} groups
 * @param {number} width
 * @param {number} bytesPerPx
 * @returns {Layout}
 */
export function layoutStrips(moment, groups, width, bytesPerPx) {
  const lineBytes = width * bytesPerPx;
  /** @type {Layout["heads"]} */
  const heads = [];
  /** @type {Line[]} */
  const lines = [];
  /** @type {Layout["part"]} */
  const part = { strip: [], from: [], bytes: [], x: [] };
  let y = 0;
  const openLine = () => {
    lines.push({ y, first: part.strip.length, end: part.strip.length });
    y += LINE_HEIGHT;
  };
  const put = (
    /** @type {number} */ strip,
    /** @type {number} */ from,
    /** @type {number} */ bytes,
    /** @type {number} */ at,
  ) => {
    part.strip.push(strip);
    part.from.push(from);
    part.bytes.push(bytes);
    part.x.push(at / bytesPerPx);
    lines[lines.length - 1].end = part.strip.length;
  };
  for (const group of groups) {
    heads.push({ y, group });
    y += HEADING_HEIGHT;
    openLine();
    let at = 0;
    for (const k of group.strips) {
      const { bytes } = moment.strips[k];
      if (at > 0 && at + bytes > lineBytes) {
        openLine();
        at = 0;
      }
      for (let from = 0; from < bytes; from += lineBytes) {
        if (from > 0) openLine();
        put(k, from, Math.min(lineBytes, bytes - from), at);
      }
      const last = bytes > lineBytes ? lineBytes : bytes;
      at += last + spaceAfter(bytes / bytesPerPx) * bytesPerPx;
    }
    y += 4;
  }
  return { heads, lines, part, height: y, width, bytesPerPx };
}

/**
 * Pixels between two strips of one line: none where they are so many that only their sum can be seen.
 *
 * @param {number} px
 */
function spaceAfter(px) {
  return px >= 12 ? 3 : px >= 4 ? 1 : 0;
}

/**
 * The scale at which everything fits into `height` px, or as far as one line per group allows.
 *
 * @param {Moment} moment
 * @param {StripGroup[]} groups
 * @param {number} width
 * @param {number} height
 */
export function fitScale(moment, groups, width, height) {
  const longest = Math.max(...groups.map((group) => group.bytes), 1);
  let [low, high] = [longest / width / 4096, (longest * 1.5) / width];
  for (let step = 0; step < 24; step++) {
    const middle = Math.sqrt(low * high);
    if (layoutStrips(moment, groups, width, middle).height > height) low = middle;
    else high = middle;
  }
  return high;
}

/**
 * Index of the last line that begins at or above y, -1 where there is none.
 *
 * @param {Line[]} lines
 * @param {number} y
 */
export function lineAt(lines, y) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Place of the first of the allocations alive[first] to alive[end - 1] that ends after address `addr`.
 *
 * @param {Allocations} allocations
 * @param {Int32Array} alive
 * @param {number} first
 * @param {number} end
 * @param {number} addr
 */
export function firstEndingAfter(allocations, alive, first, end, addr) {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (allocations.addr[alive[middle]] + allocations.bytes[alive[middle]] <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The block or gap at a point, px; null beside all strips.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Layout} layout
 * @param {number} x
 * @param {number} y
 * @returns {Hit | null}
 */
export function hitAtPoint(data, moment, layout, x, y) {
  const k = lineAt(layout.lines, y);
  if (k < 0 || y > layout.lines[k].y + LINE_HEIGHT) return null;
  const { part } = layout;
  for (let p = layout.lines[k].first; p < layout.lines[k].end; p++) {
    const width = part.bytes[p] / layout.bytesPerPx;
    if (x < part.x[p] || x >= part.x[p] + Math.max(width, 1)) continue;
    const strip = moment.strips[part.strip[p]];
    return hitAtAddress(data, moment, part.strip[p], strip.addr + part.from[p] + (x - part.x[p]) * layout.bytesPerPx);
  }
  return null;
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {number} k
 * @param {number} addr
 * @returns {Hit}
 */
export function hitAtAddress(data, moment, k, addr) {
  const { allocations } = data;
  const strip = moment.strips[k];
  const at = firstEndingAfter(allocations, moment.allocations, strip.first, strip.end, addr);
  const allocation = at < strip.end ? moment.allocations[at] : -1;
  if (allocation >= 0 && allocations.addr[allocation] <= addr)
    return { strip: k, allocation, from: allocations.addr[allocation], bytes: allocations.bytes[allocation] };
  const before = at > strip.first ? moment.allocations[at - 1] : -1;
  const from = before < 0 ? strip.addr : allocations.addr[before] + allocations.bytes[before];
  return {
    strip: k,
    allocation: -1,
    from,
    bytes: (allocation < 0 ? strip.addr + strip.bytes : allocations.addr[allocation]) - from,
  };
}

/**
 * The rectangles, px, that bytes [from, from + bytes) of strip k take: one in each of its lines.
 *
 * @param {Moment} moment
 * @param {Layout} layout
 * @param {Pick<Hit, "strip" | "from" | "bytes">} hit
 * @returns {Box[]}
 */
export function boxesOfHit(moment, layout, { strip, from, bytes }) {
  const { part, lines, bytesPerPx } = layout;
  const begin = from - moment.strips[strip].addr;
  /** @type {Box[]} */
  const boxes = [];
  let p = part.strip.indexOf(strip);
  let line = 0;
  for (; p >= 0 && p < part.strip.length && part.strip[p] === strip; p++) {
    const [a, b] = [Math.max(begin, part.from[p]), Math.min(begin + bytes, part.from[p] + part.bytes[p])];
    if (a >= b) continue;
    while (lines[line].end <= p) line++;
    boxes.push({
      x: part.x[p] + (a - part.from[p]) / bytesPerPx,
      y: lines[line].y,
      width: (b - a) / bytesPerPx,
      height: BAR_HEIGHT,
    });
  }
  return boxes;
}
