// What is in a stretch of time: how long the GPUs were busy and idle in it, and what ran.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/** @typedef {{ busy: number, idle: number, work: number, calls: number }} Measured ns; device work and host events. */

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
  const isWork = header.cats.map((name) => DEVICE_CATS.has(name));
  const isDevice = header.lanes.map(({ kind }) => kind === "device");
  /** @type {number[]} */
  const found = [];
  let calls = 0;
  for (let i = 0; i < data.n; i++) {
    if (start[i] >= t1 || start[i] + dur[i] <= t0) continue;
    if (isWork[cat[i]] && isDevice[lane[i]]) found.push(i);
    else if (!isDevice[lane[i]]) calls += 1;
  }
  found.sort((a, b) => start[a] - start[b]);
  let [busy, until] = [0, t0];
  for (const i of found) {
    const from = Math.max(start[i], until);
    const to = Math.min(start[i] + dur[i], t1);
    if (to <= from) continue;
    busy += to - from;
    until = to;
  }
  return { busy, idle: t1 - t0 - busy, work: found.length, calls };
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
