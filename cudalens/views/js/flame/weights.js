// The weight of each node of a flame graph: GPU time, CPU time or allocated bytes of its events, of all or of a selection.

import { EVENT_FLAGS } from "../payload/derive.js";

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
 * @returns {NodeSums}
 */
export function nodeSums(data, paths, by, mask, range) {
  const { parent, nodeOf } = paths;
  const sums = { weight: new Float64Array(parent.length), num: new Float64Array(parent.length) };
  if (by === "memory") addAllocations(data, nodeOf, mask, range, sums);
  else addTimes(data, nodeOf, by === "device", mask, range, sums);
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
function addTimes(data, nodeOf, isDevice, mask, range, { weight, num }) {
  const { n, lane, header, flags } = data;
  const onDevice = header.lanes.map(({ kind }) => kind === "device");
  const own = isDevice ? null : range === null ? data.self : selfWithin(data, range);
  const skip = EVENT_FLAGS.instant | EVENT_FLAGS.waiting;
  for (let i = 0; i < n; i++) {
    const node = nodeOf[i];
    if (node < 0 || onDevice[lane[i]] !== isDevice || flags[i] & skip || (mask !== null && !mask[i])) continue;
    const value = own ? own[i] : range === null ? data.dur[i] : within(data, i, range);
    if (value > 0) weight[node] += value;
    num[node] += 1;
  }
}

/**
 * How long event i lasts within a range, ns.
 *
 * @param {TraceData} data
 * @param {number} i
 * @param {TimeRange} range
 */
function within({ start, dur }, i, [t0, t1]) {
  return Math.max(0, Math.min(start[i] + dur[i], t1) - Math.max(start[i], t0));
}

/**
 * Self time of every event within a range, ns.
 *
 * @param {TraceData} data
 * @param {TimeRange} range
 */
function selfWithin(data, range) {
  const own = new Float64Array(data.n);
  for (let i = 0; i < data.n; i++) {
    const value = within(data, i, range);
    own[i] += value;
    if (data.parent[i] >= 0) own[data.parent[i]] -= value;
  }
  return own;
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
