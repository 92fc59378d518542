// What is in a stretch of time: how long the GPUs were busy and idle in it, and what ran.

import { slicesOf } from "../shared/slices.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/** @typedef {{ busy: number, idle: number, work: number, calls: number }} Measured ns; device work and host events. */

/**
 * Stretches of time that do not touch, in order.
 *
 * @typedef {object} Spans
 * @property {number} num
 * @property {Float64Array} from At least num values, as in `to`.
 * @property {Float64Array} to
 */

const DEVICE_CATS = new Set(["kernel", "gpu_memcpy", "gpu_memset"]);

/**
 * Times within `range`; the GPUs are busy while any of them is.
 *
 * @param {TraceData} data
 * @param {TimeRange} range
 * @returns {Generator<void, Measured>}
 */
export function* measureRange(data, range) {
  const isWork = Uint8Array.from(data.header.cats, (name) => +DEVICE_CATS.has(name));
  let busy = newSpans(0);
  let [work, calls, first] = [0, 0, 0];
  for (const { kind, count } of data.header.lanes) {
    const stop = first + count;
    const own = newSpans(kind === "device" ? count : 0);
    for (const [from, to] of slicesOf(first, stop)) {
      // The events of a lane are in the order of their starts.
      if (data.start[from] >= range[1]) break;
      if (kind === "device") work += addWork(data, isWork, range, own, from, to);
      else calls += numWithin(data, range, from, to);
      yield;
    }
    busy = union(busy, own);
    first = stop;
  }
  let sum = 0;
  for (let k = 0; k < busy.num; k++) sum += busy.to[k] - busy.from[k];
  return { busy: sum, idle: range[1] - range[0] - sum, work, calls };
}

/**
 * How many events overlap a range.
 *
 * @param {TraceData} data
 * @param {TimeRange} range
 * @param {number} from
 * @param {number} stop
 */
function numWithin({ start, dur }, [t0, t1], from, stop) {
  let num = 0;
  for (let i = from; i < stop && start[i] < t1; i++) num += +(start[i] + dur[i] > t0);
  return num;
}

/**
 * Adds when the events of a device work within a range; returns how many do.
 *
 * @param {TraceData} data
 * @param {Uint8Array} isWork By category.
 * @param {TimeRange} range
 * @param {Spans} spans
 * @param {number} from
 * @param {number} stop
 */
function addWork({ start, dur, cat }, isWork, [t0, t1], spans, from, stop) {
  let num = 0;
  for (let i = from; i < stop && start[i] < t1; i++) {
    const end = start[i] + dur[i];
    if (end <= t0 || !isWork[cat[i]]) continue;
    num += 1;
    addSpan(spans, Math.max(start[i], t0), Math.min(end, t1));
  }
  return num;
}

/**
 * @param {number} size
 * @returns {Spans}
 */
function newSpans(size) {
  return { num: 0, from: new Float64Array(size), to: new Float64Array(size) };
}

/**
 * Adds a stretch that begins no earlier than the others.
 *
 * @param {Spans} spans
 * @param {number} from
 * @param {number} to
 */
function addSpan(spans, from, to) {
  const last = spans.num - 1;
  if (last >= 0 && from <= spans.to[last]) {
    if (to > spans.to[last]) spans.to[last] = to;
    return;
  }
  spans.from[spans.num] = from;
  spans.to[spans.num] = to;
  spans.num += 1;
}

/**
 * What is in one of them, or in both.
 *
 * @param {Spans} a
 * @param {Spans} b
 * @returns {Spans}
 */
function union(a, b) {
  if (!a.num || !b.num) return a.num ? a : b;
  const both = newSpans(a.num + b.num);
  for (let i = 0, k = 0; i < a.num || k < b.num; ) {
    if (k >= b.num || (i < a.num && a.from[i] <= b.from[k])) addSpan(both, a.from[i], a.to[i++]);
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
