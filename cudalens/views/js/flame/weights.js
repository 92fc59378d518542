// The weight of each node of a flame graph: GPU time, CPU time or allocated bytes of its events, of all or of a selection.

import { EVENT_FLAGS } from "../payload/derive.js";
import { slicesOf } from "../shared/slices.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { CallPaths } from "./paths.js" */

/** @typedef {"device" | "host" | "memory"} Weight */
/** @typedef {{ weight: Float64Array, num: Float64Array }} NodeSums Of each node and all below it. */

/**
 * What the events of a trace can be weighted by.
 *
 * @param {TraceData} data
 * @returns {[Weight, string][]}
 */
export function weightsOf({ header, memory }) {
  /** @type {[Weight, string][]} */
  const all = [];
  if (header.lanes.some(({ kind, count }) => kind === "device" && count)) all.push(["device", "GPU time"]);
  if (header.lanes.some(({ kind, count }) => kind === "host" && count)) all.push(["host", "CPU time"]);
  // Thinned actions would leave out bytes.
  const { n, num_actions: num } = header.memory;
  if (n === num && memory.some(({ event }) => event.some((at) => at >= 0))) all.push(["memory", "allocated bytes"]);
  return all;
}

/**
 * Sums over the events of `mask` (all where null), as far as they are in `range`.
 *
 * @param {TraceData} data
 * @param {CallPaths} paths
 * @param {Weight} by
 * @param {Uint8Array | null} mask
 * @param {TimeRange | null} range ns
 * @returns {Generator<void, NodeSums>}
 */
export function* nodeSums(data, paths, by, mask, range) {
  const { parent, nodeOf } = paths;
  const sums = { weight: new Float64Array(parent.length), num: new Float64Array(parent.length) };
  if (by === "memory") addAllocations(data, nodeOf, mask, range, sums);
  else yield* addTimes(data, nodeOf, by === "device", mask, range, sums);
  const { weight, num } = sums;
  for (let k = parent.length - 1; k > 0; k--) {
    weight[parent[k]] += weight[k];
    num[parent[k]] += num[k];
  }
  return sums;
}

/**
 * @param {TraceData} data
 * @param {Int32Array} nodeOf
 * @param {boolean} isDevice
 * @param {Uint8Array | null} mask
 * @param {TimeRange | null} range
 * @param {NodeSums} sums
 */
function* addTimes(data, nodeOf, isDevice, mask, range, sums) {
  const times = range ? yield* timesWithin(data, isDevice, range) : isDevice ? data.dur : data.self;
  for (const [from, stop] of slicesOfSide(data, isDevice)) {
    addSlice(data, nodeOf, mask, times, sums, from, stop);
    yield;
  }
}

/**
 * @param {TraceData} data
 * @param {Int32Array} nodeOf
 * @param {Uint8Array | null} mask
 * @param {Float64Array} times
 * @param {NodeSums} sums
 * @param {number} from
 * @param {number} stop
 */
function addSlice({ flags }, nodeOf, mask, times, { weight, num }, from, stop) {
  const skip = EVENT_FLAGS.instant | EVENT_FLAGS.waiting;
  for (let i = from; i < stop; i++) {
    const node = nodeOf[i];
    if (node < 0 || flags[i] & skip || (mask !== null && !mask[i])) continue;
    if (times[i] > 0) weight[node] += times[i];
    num[node] += 1;
  }
}

/**
 * Durations of the events of a device, or self times of those of the host, within a range, ns.
 *
 * @param {TraceData} data
 * @param {boolean} isDevice
 * @param {TimeRange} range
 */
function* timesWithin(data, isDevice, range) {
  const times = new Float64Array(data.n);
  for (const [from, stop] of slicesOfSide(data, isDevice)) {
    if (data.start[from] >= range[1]) continue;
    addTimesWithin(data, range, times, from, stop);
    yield;
  }
  return times;
}

/**
 * @param {TraceData} data
 * @param {TimeRange} range
 * @param {Float64Array} times
 * @param {number} from
 * @param {number} stop
 */
function addTimesWithin({ start, dur, parent }, [t0, t1], times, from, stop) {
  // The events of a lane are in the order of their starts.
  for (let i = from; i < stop && start[i] < t1; i++) {
    const end = start[i] + dur[i];
    if (end <= t0) continue;
    const time = Math.min(end, t1) - Math.max(start[i], t0);
    times[i] += time;
    if (parent[i] >= 0) times[parent[i]] -= time; // device work has no parent
  }
}

/**
 * The slices of the lanes of devices, or of the host.
 *
 * @param {TraceData} data
 * @param {boolean} isDevice
 */
function* slicesOfSide({ header }, isDevice) {
  let first = 0;
  for (const { kind, count } of header.lanes) {
    if ((kind === "device") === isDevice) yield* slicesOf(first, first + count);
    first += count;
  }
}

/**
 * Bytes that were allocated during the events, freed or not; on GPUs where there are any.
 *
 * @param {TraceData} data
 * @param {Int32Array} nodeOf
 * @param {Uint8Array | null} mask
 * @param {TimeRange | null} range
 * @param {NodeSums} sums
 */
function addAllocations({ memory }, nodeOf, mask, range, { weight, num }) {
  const gpus = memory.filter(({ label }) => label !== "cpu");
  for (const { ts, bytes, action, actions, event } of gpus.length ? gpus : memory) {
    for (let k = 0; k < ts.length; k++) {
      const node = event[k] < 0 ? -1 : nodeOf[event[k]];
      if (node < 0 || !actions[action[k]].startsWith("alloc") || !(bytes[k] > 0)) continue;
      if ((mask !== null && !mask[event[k]]) || (range !== null && (ts[k] < range[0] || ts[k] > range[1]))) continue;
      weight[node] += bytes[k];
      num[node] += 1;
    }
  }
}
