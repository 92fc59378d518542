// Costs by name over the selected events, by the definition of cudalens.analysis.key_averages: host and device apart;
// steps under one name; instants left out; an event that averaging folds into its caller is not counted, but its self
// time goes to the row that it ends up in.

import { EVENT_FLAGS } from "../payload/derive.js";
import { shortName } from "../payload/payload.js";

/** @import { TraceData } from "../payload/payload.js" */

/**
 * What every aggregation needs.
 *
 * @typedef {object} CostBasis
 * @property {Float64Array} self Self time after folding, ns, by event.
 * @property {Uint32Array} group The name that each name is counted under.
 * @property {number[]} steps Names of profiler steps.
 * @property {Uint8Array} device 1 for each lane of a device.
 */

/**
 * Costs of one name on one side; times in ns.
 *
 * @typedef {object} CostRow
 * @property {number[]} ids Names.
 * @property {string} name
 * @property {string} short
 * @property {number} side 1 for devices, 0 for the host.
 * @property {string} cat
 * @property {number} count
 * @property {number} total
 * @property {number} self
 * @property {number} mean
 * @property {number | null} std
 * @property {number} min
 * @property {number} max
 * @property {number} share In percent of the side's self time.
 */

/** @typedef {Omit<CostRow, "share"> & { cost: number }} SummedRow The cost is self time, without Python calls in which a
 * thread only waits. */
/** @typedef {ReturnType<typeof emptySums>} Sums By name and side. */

const STEP_NAME = "ProfilerStep*";
const UNCOUNTED_CATS = new Set(["Trace", "overhead", "gpu_user_annotation", "cuda_sync"]);

/**
 * What every aggregation of `data` needs, computed once: self time after folding, and the group of each name.
 *
 * @param {TraceData} data
 * @returns {CostBasis}
 */
export function costBasis(data) {
  const self = Float64Array.from(data.self);
  const head = new Int32Array(data.n);
  for (let i = 0; i < data.n; i++) {
    // A parent comes before its children, so its own head is known already.
    head[i] = data.flags[i] & EVENT_FLAGS.folded ? head[data.parent[i]] : i;
    if (head[i] !== i) self[head[i]] += data.self[i];
  }
  const group = Uint32Array.from(data.header.names.keys());
  const steps = data.header.step_names;
  for (const id of steps) group[id] = steps[0];
  const device = Uint8Array.from(data.header.lanes, (lane) => +(lane.kind === "device"));
  return { self, group, steps, device };
}

/**
 * A row per name and side over the events of `mask`, all where null.
 *
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {Uint8Array | null} mask
 * @returns {CostRow[]}
 */
export function aggregate(data, basis, mask) {
  const { n, flags, lane, name, dur } = data;
  const { self, group, device } = basis;
  const skip = EVENT_FLAGS.folded | EVENT_FLAGS.instant;
  const sums = emptySums(2 * data.header.names.length);
  for (let i = 0; i < n; i++) {
    if ((mask !== null && !mask[i]) || flags[i] & skip) continue;
    const key = group[name[i]] * 2 + device[lane[i]];
    if (sums.count[key] === 0) sums.first[key] = i;
    sums.self[key] += self[i];
    if (!(flags[i] & EVENT_FLAGS.waiting)) sums.cost[key] += self[i];
    addDuration(sums, key, dur[i]);
  }
  // In the order in which they are met.
  const keys = [...sums.count.keys()].filter((key) => sums.count[key]).sort((a, b) => sums.first[a] - sums.first[b]);
  return withShares(keys.map((key) => rowOf(data, basis, sums, key)));
}

/** @param {number} num */
function emptySums(num) {
  const numbers = () => new Float64Array(num);
  return {
    first: new Int32Array(num),
    count: numbers(),
    total: numbers(),
    self: numbers(),
    cost: numbers(),
    min: numbers().fill(Infinity),
    max: numbers().fill(-Infinity),
    mean: numbers(),
    spread: numbers(),
  };
}

/**
 * Welford's update: a sum of squares of nanoseconds would lose the digits that matter.
 *
 * @param {Sums} sums
 * @param {number} key
 * @param {number} dur
 */
function addDuration(sums, key, dur) {
  sums.count[key] += 1;
  sums.total[key] += dur;
  if (dur < sums.min[key]) sums.min[key] = dur;
  if (dur > sums.max[key]) sums.max[key] = dur;
  const off = dur - sums.mean[key];
  sums.mean[key] += off / sums.count[key];
  sums.spread[key] += off * (dur - sums.mean[key]);
}

/**
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {Sums} sums
 * @param {number} key
 * @returns {SummedRow}
 */
function rowOf(data, basis, sums, key) {
  const id = key >> 1;
  const isStep = basis.steps.includes(id);
  const [count, total] = [sums.count[key], sums.total[key]];
  return {
    ids: isStep ? basis.steps : [id],
    name: isStep ? STEP_NAME : data.header.names[id],
    short: isStep ? STEP_NAME : shortName(data.header, id),
    side: key & 1,
    cat: data.header.cats[data.cat[sums.first[key]]],
    count,
    total,
    self: sums.self[key],
    cost: sums.cost[key],
    min: sums.min[key],
    max: sums.max[key],
    mean: total / count,
    std: count > 1 ? Math.sqrt(sums.spread[key] / (count - 1)) : null,
  };
}

/**
 * @param {SummedRow[]} rows
 * @returns {CostRow[]}
 */
function withShares(rows) {
  const weight = (/** @type {Pick<SummedRow, "cat" | "cost">} */ row) => (UNCOUNTED_CATS.has(row.cat) ? 0 : row.cost);
  const whole = [0, 0];
  for (const row of rows) whole[row.side] += weight(row);
  return rows.map(({ cost, ...row }) => ({
    ...row,
    share: whole[row.side] > 0 ? (100 * weight({ ...row, cost })) / whole[row.side] : 0,
  }));
}
