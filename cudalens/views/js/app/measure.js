// What is in a stretch of time: how long the GPUs were busy and idle in it, and what ran.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/** @typedef {{ busy: number, idle: number, work: number, calls: number }} Measured ns; device work and host events. */

/** @typedef {{ from: number[], to: number[] }} Spans Stretches of time that do not touch, in order. */

const DEVICE_CATS = new Set(["kernel", "gpu_memcpy", "gpu_memset"]);

/**
 * Times within `range`; the GPUs are busy while any of them is.
 *
 * @param {TraceData} data
 * @param {TimeRange} range
 * @returns {Measured}
 */
export function measureRange(data, [t0, t1]) {
  const { start, dur, cat, lane, header } = data;
  const isWork = Uint8Array.from(header.cats, (name) => +DEVICE_CATS.has(name));
  const isDevice = Uint8Array.from(header.lanes, ({ kind }) => +(kind === "device"));
  /** @type {Spans} */
  let busy = { from: [], to: [] };
  /** @type {Spans} */
  let own = { from: [], to: [] };
  let [work, calls] = [0, 0];
  for (let i = 0; i < data.n; i++) {
    if (i > 0 && lane[i] !== lane[i - 1]) {
      busy = union(busy, own);
      own = { from: [], to: [] };
    }
    const end = start[i] + dur[i];
    if (start[i] >= t1 || end <= t0) continue;
    if (!isDevice[lane[i]]) calls += 1;
    else if (isWork[cat[i]]) {
      work += 1;
      addSpan(own, Math.max(start[i], t0), Math.min(end, t1));
    }
  }
  busy = union(busy, own);
  const sum = busy.from.reduce((before, from, k) => before + busy.to[k] - from, 0);
  return { busy: sum, idle: t1 - t0 - sum, work, calls };
}

/**
 * Adds a stretch that begins no earlier than the others.
 *
 * @param {Spans} spans
 * @param {number} from
 * @param {number} to
 */
function addSpan(spans, from, to) {
  const last = spans.to.length - 1;
  if (last >= 0 && from <= spans.to[last]) spans.to[last] = Math.max(spans.to[last], to);
  else {
    spans.from.push(from);
    spans.to.push(to);
  }
}

/**
 * What is in one of them, or in both.
 *
 * @param {Spans} a
 * @param {Spans} b
 * @returns {Spans}
 */
function union(a, b) {
  if (!a.from.length || !b.from.length) return a.from.length ? a : b;
  /** @type {Spans} */
  const both = { from: [], to: [] };
  for (let i = 0, k = 0; i < a.from.length || k < b.from.length; ) {
    if (k >= b.from.length || a.from[i] <= b.from[k]) addSpan(both, a.from[i], a.to[i++]);
    else addSpan(both, b.from[k], b.to[k++]);
  }
  return both;
}

/**
 * The time between two events: from the end of the earlier to the start of the later; where they overlap, from the
 * start of the one to the start of the other.
 *
 * @param {TraceData} data
 * @param {number} a
 * @param {number} b
 * @returns {TimeRange}
 */
export function between({ start, dur }, a, b) {
  const [first, second] = start[a] <= start[b] ? [a, b] : [b, a];
  const end = start[first] + dur[first];
  return end < start[second] ? [end, start[second]] : [start[first], Math.max(start[second], start[first] + 1)];
}
