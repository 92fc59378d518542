// Level of detail: events in rows that never overlap, and one pass over the pixels of a row that costs O(pixels),
// however many events they represent. Sums of durations before each event give the exact share of a pixel that is busy;
// the longest event in it, found through a pyramid of maxima, gives its colour.

import { groupOf, NUM_SHADES, nameHash } from "../shared/theme.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "./view.js" */

const FANOUT = 16;
const MAX_ROWS = 512;
const UNDRAWN = 65535;
// An event is drawn short by at most this share of the event that takes its row.
const MAX_CUT = 0.02;
const MIN_ALPHA = 88;
const OPAQUE = (255 << 24) >>> 0;
const EDGE = (150 << 24) >>> 0;

/**
 * Row of every event within its lane: below all events that contain it, and shared with no event at the same time. Rows
 * beyond MAX_ROWS are not drawn (UNDRAWN). A zero-length event takes up no time. Where a much longer event begins shortly
 * before the end of others that do not contain it, these are drawn until its start: else it, and all in it, would be
 * drawn below them, with empty rows above.
 *
 * @param {TraceData} data
 * @returns {Rows}
 */
export function assignRows(data) {
  const { start, dur, n, header } = data;
  const row = new Uint16Array(n);
  /** @type {number[]} */
  const heights = [];
  const until = new Float64Array(MAX_ROWS);
  const last = new Int32Array(MAX_ROWS);
  /** @type {Map<number, number>} */
  const ends = new Map();
  let i = 0;
  for (const lane of header.lanes) {
    let top = -1;
    let height = 0;
    until.fill(-Infinity);
    const firstInner = i + lane.enclosing;
    for (const stop = i + lane.count; i < stop; i++) {
      if (i < firstInner && i > firstInner - lane.enclosing) {
        row[i] = UNDRAWN; // the first one shows all of them
        continue;
      }
      const s = start[i];
      const e = s + dur[i];
      while (top >= 0 && until[top] <= s) top--;
      let r = top;
      while (r >= 0 && !(until[r] > s && until[r] >= e)) r--;
      r++;
      while (r < MAX_ROWS && until[r] > s) {
        if (start[last[r]] < s && until[r] - s < MAX_CUT * (e - s)) {
          ends.set(last[r], s);
          break;
        }
        r++;
      }
      if (r >= MAX_ROWS) {
        row[i] = UNDRAWN;
        continue;
      }
      row[i] = r;
      until[r] = e;
      last[r] = i;
      if (e > s && r > top) top = r;
      if (r >= height) height = r + 1;
    }
    heights.push(Math.max(height, 1));
  }
  return { row, heights, ends };
}

/**
 * Event i, or the event that is drawn in its place: the first of the frames that enclose the lane.
 *
 * @param {TraceData} data
 * @param {Rows} rows
 * @param {number} i
 */
export function drawnEvent(data, rows, i) {
  let first = i;
  while (rows.row[first] === UNDRAWN && first > 0 && data.lane[first - 1] === data.lane[i]) first--;
  return rows.row[i] === UNDRAWN && rows.row[first] === 0 ? first : i;
}

/**
 * Tone (group * shades + shade) of every event, through the few pairs of name and category.
 *
 * @param {TraceData} data
 */
export function assignTones(data) {
  const { names, cats } = data.header;
  /** @type {Map<number, number>} */
  const byPair = new Map();
  const tone = new Uint8Array(data.n);
  const shadeOf = new Int8Array(names.length).fill(-1);
  let lastKey = -1;
  let lastTone = 0;
  for (let i = 0; i < data.n; i++) {
    const key = data.name[i] * 65536 + data.cat[i];
    if (key !== lastKey) {
      let found = byPair.get(key);
      if (found === undefined) {
        const name = names[data.name[i]];
        if (shadeOf[data.name[i]] < 0) shadeOf[data.name[i]] = nameHash(name) % NUM_SHADES;
        found = groupOf(cats[data.cat[i]], name) * NUM_SHADES + shadeOf[data.name[i]];
        byPair.set(key, found);
      }
      lastKey = key;
      lastTone = found;
    }
    tone[i] = lastTone;
  }
  return tone;
}

/**
 * Events gathered row by row: place p holds event at[p], from s[p] to e[p].
 *
 * @typedef {object} RowIndex
 * @property {Uint32Array} first Place where each row begins, one more at the end.
 * @property {Uint32Array} laneRow Number of each lane's first row, one more at the end.
 * @property {Uint32Array} at
 * @property {Float64Array} s
 * @property {Float64Array} e
 * @property {Float64Array} sum Duration before each place, one more at the end.
 * @property {Uint8Array} tone
 * @property {Uint32Array[]} maxima Levels of places of longest events.
 */

/**
 * Row of every event in its lane, rows of each lane, and the drawn end of events that are drawn short.
 *
 * @typedef {{ row: Uint16Array, heights: number[], ends: Map<number, number> }} Rows
 */

/**
 * @param {TraceData} data
 * @param {Rows} rows
 * @param {Uint8Array} tone Of every event.
 * @param {Uint8Array | null} [keep] 1 for the events to gather; all where null.
 * @returns {RowIndex}
 */
export function gatherRows(data, rows, tone, keep = null) {
  const { start, dur, lane, n } = data;
  const isOut = (/** @type {number} */ i) => rows.row[i] === UNDRAWN || (keep !== null && !keep[i]);
  const laneRow = runningSums(rows.heights);
  const counts = new Uint32Array(laneRow[rows.heights.length]);
  for (let i = 0; i < n; i++) if (!isOut(i)) counts[laneRow[lane[i]] + rows.row[i]]++;
  const first = runningSums(counts);
  const m = first[first.length - 1];
  const index = {
    first,
    laneRow,
    at: new Uint32Array(m),
    s: new Float64Array(m),
    e: new Float64Array(m),
    sum: new Float64Array(m + 1),
    tone: new Uint8Array(m),
  };
  const next = first.slice();
  for (let i = 0; i < n; i++) {
    if (isOut(i)) continue;
    const p = next[laneRow[lane[i]] + rows.row[i]]++;
    index.at[p] = i;
    index.s[p] = start[i];
    index.e[p] = start[i] + dur[i];
    index.tone[p] = tone[i];
  }
  for (const [i, end] of rows.ends) if (!isOut(i)) index.e[placeIn(index, laneRow[lane[i]] + rows.row[i], i)] = end;
  for (let p = 0; p < m; p++) index.sum[p + 1] = index.sum[p] + index.e[p] - index.s[p];
  return { ...index, maxima: buildMaxima(index.s, index.e) };
}

/**
 * Place of event i in row r.
 *
 * @param {{ first: Uint32Array, at: Uint32Array }} index
 * @param {number} r
 * @param {number} i
 */
function placeIn({ first, at }, r, i) {
  let low = first[r];
  let high = first[r + 1];
  while (low < high) {
    const mid = (low + high) >> 1;
    if (at[mid] < i) low = mid + 1;
    else high = mid;
  }
  return low;
}

/**
 * Sums of the counts before each place, and of all at the end.
 *
 * @param {ArrayLike<number>} counts
 */
function runningSums(counts) {
  const sums = new Uint32Array(counts.length + 1);
  for (let k = 0; k < counts.length; k++) sums[k + 1] = sums[k] + counts[k];
  return sums;
}

/**
 * @param {Float64Array} s
 * @param {Float64Array} e
 * @returns {Uint32Array[]}
 */
function buildMaxima(s, e) {
  /** @type {Uint32Array[]} */
  const levels = [];
  /** @type {Uint32Array | null} */
  let below = null;
  for (let size = s.length; size > FANOUT; ) {
    const num = Math.ceil(size / FANOUT);
    const level = new Uint32Array(num);
    for (let b = 0; b < num; b++) {
      let best = -1;
      let length = -1;
      for (let k = b * FANOUT; k < Math.min(size, (b + 1) * FANOUT); k++) {
        const p = below === null ? k : below[k];
        if (e[p] - s[p] > length) {
          length = e[p] - s[p];
          best = p;
        }
      }
      level[b] = best;
    }
    levels.push(level);
    below = level;
    size = num;
  }
  return levels;
}

/**
 * Place of the longest event in places [from, to), the first of equals; from < to.
 *
 * @param {RowIndex} index
 * @param {number} from
 * @param {number} to
 */
export function longestIn(index, from, to) {
  const { s, e, maxima } = index;
  let best = from;
  let length = e[from] - s[from];
  const look = (/** @type {number} */ p) => {
    const other = e[p] - s[p];
    if (other > length || (other === length && p < best)) {
      length = other;
      best = p;
    }
  };
  let a = from;
  let b = to;
  for (let level = -1; a < b; level++) {
    const at = level < 0 ? null : maxima[level];
    const isLast = level + 1 >= maxima.length || b - a <= FANOUT;
    while (a < b && (isLast || a % FANOUT)) look(at === null ? a++ : at[a++]);
    while (b > a && b % FANOUT) look(at === null ? --b : at[--b]);
    a /= FANOUT;
    b /= FANOUT;
  }
  return best;
}

/**
 * First place in [from, to) whose start is at or after t, else `to`; looks near `from` first.
 *
 * @param {Float64Array} s
 * @param {number} from
 * @param {number} to
 * @param {number} t
 */
export function placeAfter(s, from, to, t) {
  let step = 1;
  let low = from;
  while (low + step < to && s[low + step] < t) {
    low += step;
    step *= 2;
  }
  let high = Math.min(to, low + step);
  while (low < high) {
    const mid = (low + high) >> 1;
    if (s[mid] < t) low = mid + 1;
    else high = mid;
  }
  return low;
}

/**
 * First place of row r that is not over by t: it ends after t, or starts at or after t.
 *
 * @param {RowIndex} index
 * @param {number} r
 * @param {number} t
 */
export function placeAt(index, r, t) {
  const from = index.first[r];
  const p = placeAfter(index.s, from, index.first[r + 1], t);
  return p > from && index.e[p - 1] > t ? p - 1 : p;
}

/**
 * Where a row is painted: nanoseconds from t0 at `w` per pixel, into `width` pixels of `out` (ABGR, zeroed) from `base`
 * on. Events of `minWidth` pixels or more are reported.
 *
 * @typedef {{ t0: number, w: number, out: Uint32Array, base: number, width: number, minWidth: number }} RowTarget
 */

/**
 * The pixels of one row: each gets the colour of the longest event in it, with an alpha that grows with the busy share
 * of the pixel, and 0 where nothing ran.
 *
 * @param {RowIndex} index
 * @param {number} r Row.
 * @param {RowTarget} target
 * @param {Uint32Array} pixels Colour of each tone, without alpha.
 * @param {(place: number, x0: number, x1: number) => void} wide Called for each wide event, pixels.
 */
export function paintRow(index, r, { t0, w, out, base, width, minWidth }, pixels, wide) {
  const { s, e, sum, tone } = index;
  const end = index.first[r + 1];
  const scale = 1 / w;
  const t1 = t0 + width * w;
  let p = placeAt(index, r, t0);
  let x = 0;
  while (p < end && s[p] < t1 && x < width) {
    const from = (s[p] - t0) * scale;
    if (from > x) x = Math.floor(from);
    const tx = t0 + x * w;
    if (e[p] <= tx && s[p] < tx) {
      p++;
      continue;
    }
    if (s[p] <= tx && e[p] >= tx + w) {
      const to = (e[p] - t0) * scale;
      // Rounding may put `to` a hair short of the pixel that the event was found to fill.
      const stop = Math.min(width, Math.max(x + 1, Math.floor(to)));
      out.fill((pixels[tone[p]] | OPAQUE) >>> 0, base + x, base + stop);
      if (to - from >= minWidth) wide(p, from, to);
      // A lighter last pixel keeps neighbours of one colour apart.
      if (to - from >= 4 && stop < width) out[base + stop - 1] = (pixels[tone[p]] | EDGE) >>> 0;
      x = stop;
      if (e[p] <= t0 + x * w) p++;
      continue;
    }
    const tq = tx + w;
    const q = placeAfter(s, p, end, tq);
    if (q === p) {
      // Rounding found the pixel before the one that the event starts in.
      x++;
      continue;
    }
    const clipped = Math.max(0, tx - s[p]) + Math.max(0, e[q - 1] - tq);
    const busy = (sum[q] - sum[p] - clipped) * scale;
    const best = q - p === 1 ? p : longestIn(index, p, q);
    const strength = MIN_ALPHA + (255 - MIN_ALPHA) * (busy > 1 ? 1 : busy);
    out[base + x] = (pixels[tone[best]] | (Math.round(strength) << 24)) >>> 0;
    x++;
    p = e[q - 1] > tq ? q - 1 : q;
  }
}

/**
 * Adds the busy share of each of out.length equal stretches of [t0, t1] on row r to `out`.
 *
 * @param {RowIndex} index
 * @param {number} r
 * @param {TimeRange} view
 * @param {Float32Array} out
 */
export function addBusy(index, r, [t0, t1], out) {
  const { s, e, sum } = index;
  const w = (t1 - t0) / out.length;
  const end = index.first[r + 1];
  let p = placeAt(index, r, t0);
  for (let x = 0; x < out.length && p < end; x++) {
    const tx = t0 + x * w;
    const q = placeAfter(s, p, end, tx + w);
    if (q === p && !(s[p] < tx + w)) continue;
    const clipped = Math.max(0, tx - s[p]) + Math.max(0, e[q - 1] - tx - w);
    out[x] += Math.max(0, sum[q] - sum[p] - clipped) / w;
    p = q > p && e[q - 1] > tx + w ? q - 1 : q;
  }
}

/**
 * The event at time t of row r, or the longest one within `slack` ns of it; -1 where there is none.
 *
 * @param {RowIndex} index
 * @param {number} r
 * @param {number} t
 * @param {number} slack
 */
export function eventAt(index, r, t, slack) {
  const { s, e, first } = index;
  const p = placeAt(index, r, t);
  if (p < first[r + 1] && s[p] <= t && e[p] > t && e[p] - s[p] >= 2 * slack) return index.at[p];
  const from = placeAt(index, r, t - slack);
  const to = placeAfter(s, from, first[r + 1], t + slack);
  const last = to < first[r + 1] && s[to] <= t + slack ? to + 1 : to;
  return from < last ? index.at[longestIn(index, from, last)] : -1;
}
