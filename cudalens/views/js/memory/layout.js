// Where the strips of memory stand: like words in a text. A strip that is longer than a line takes several, a shorter one
// is never broken; each group (pool, stream, small or large) begins with a heading. Area is bytes, everywhere alike.

import { mmPoolText } from "./moment.js";

export const MM_LINE = 16;
export const MM_BAR = 14;
export const MM_HEAD = 22;
const MM_KINDS = ["", " · small blocks", " · large blocks"];

export function mmGroups(data, moment) {
  const groups = new Map();
  moment.strips.forEach((strip, k) => {
    const key = `${strip.pool}/${strip.kind}`;
    const group = groups.get(key) ?? { strips: [], bytes: 0, used: 0, pool: strip.pool, kind: strip.kind };
    group.strips.push(k);
    group.bytes += strip.bytes;
    group.used += strip.used;
    groups.set(key, group);
  });
  const found = [...groups.values()].sort((a, b) => a.pool - b.pool || b.kind - a.kind);
  for (const group of found) group.label = mmPoolText(data.header.pools[group.pool]) + MM_KINDS[group.kind];
  return found;
}

/**
 * Lays the strips of `moment` out in lines of `width` px.
 *
 * @returns {object} heads: [{y, group}]; lines: [{y, first, end}], ranges of parts; parts as typed columns: strip, from (first
 *   byte within the strip), bytes, x (px); height in px.
 */
export function mmLayout(moment, groups, width, bytesPerPx) {
  const lineBytes = width * bytesPerPx;
  const heads = [];
  const lines = [];
  const part = { strip: [], from: [], bytes: [], x: [] };
  let y = 0;
  const openLine = () => {
    lines.push({ y, first: part.strip.length, end: part.strip.length });
    y += MM_LINE;
  };
  const put = (strip, from, bytes, at) => {
    part.strip.push(strip);
    part.from.push(from);
    part.bytes.push(bytes);
    part.x.push(at / bytesPerPx);
    lines.at(-1).end = part.strip.length;
  };
  for (const group of groups) {
    heads.push({ y, group });
    y += MM_HEAD;
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
      at += last + mmSpace(bytes / bytesPerPx) * bytesPerPx;
    }
    y += 4;
  }
  return { heads, lines, part, height: y, width, bytesPerPx };
}

// Pixels between two strips of one line: none where they are so many that only their sum can be seen.
function mmSpace(px) {
  return px >= 12 ? 3 : px >= 4 ? 1 : 0;
}

// The scale at which everything fits into `height` px, or as far as one line per group allows.
export function mmFit(moment, groups, width, height) {
  const longest = Math.max(...groups.map((group) => group.bytes), 1);
  let [low, high] = [longest / width / 4096, (longest * 1.5) / width];
  for (let step = 0; step < 24; step++) {
    const middle = Math.sqrt(low * high);
    if (mmLayout(moment, groups, width, middle).height > height) low = middle;
    else high = middle;
  }
  return high;
}

// Index of the last line that begins at or above y, -1 where there is none.
export function mmLineAt(lines, y) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lines[middle].y <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The first of the lives [first, end) of `alive` that ends after address `addr`.
export function mmFirstAfter(lives, alive, first, end, addr) {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lives.addr[alive[middle]] + lives.bytes[alive[middle]] <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}

// What stands at a point, px: {strip, life} or {strip, gap: [from, bytes]}, or null beside all strips.
export function mmHit(data, moment, layout, x, y) {
  const k = mmLineAt(layout.lines, y);
  if (k < 0 || y > layout.lines[k].y + MM_LINE) return null;
  const { part } = layout;
  for (let p = layout.lines[k].first; p < layout.lines[k].end; p++) {
    const width = part.bytes[p] / layout.bytesPerPx;
    if (x < part.x[p] || x >= part.x[p] + Math.max(width, 1)) continue;
    const strip = moment.strips[part.strip[p]];
    return mmAtAddress(data, moment, part.strip[p], strip.addr + part.from[p] + (x - part.x[p]) * layout.bytesPerPx);
  }
  return null;
}

export function mmAtAddress(data, moment, k, addr) {
  const { lives } = data;
  const strip = moment.strips[k];
  const at = mmFirstAfter(lives, moment.lives, strip.first, strip.end, addr);
  const life = at < strip.end ? moment.lives[at] : -1;
  if (life >= 0 && lives.addr[life] <= addr) return { strip: k, life, from: lives.addr[life], bytes: lives.bytes[life] };
  const before = at > strip.first ? moment.lives[at - 1] : -1;
  const from = before < 0 ? strip.addr : lives.addr[before] + lives.bytes[before];
  return { strip: k, life: -1, from, bytes: (life < 0 ? strip.addr + strip.bytes : lives.addr[life]) - from };
}

// The rectangles, px, that bytes [from, from + bytes) of strip k take: one in each of its lines.
export function mmBoxes(moment, layout, { strip, from, bytes }) {
  const { part, lines, bytesPerPx } = layout;
  const begin = from - moment.strips[strip].addr;
  const boxes = [];
  let p = part.strip.indexOf(strip);
  let line = 0;
  for (; p >= 0 && p < part.strip.length && part.strip[p] === strip; p++) {
    const [a, b] = [Math.max(begin, part.from[p]), Math.min(begin + bytes, part.from[p] + part.bytes[p])];
    if (a >= b) continue;
    while (lines[line].end <= p) line++;
    boxes.push({ x: part.x[p] + (a - part.from[p]) / bytesPerPx, y: lines[line].y, width: (b - a) / bytesPerPx, height: MM_BAR });
  }
  return boxes;
}
