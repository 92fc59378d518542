// Costs by name over the selected events, by the definition of cudalens.analysis.key_averages: host and device apart;
// steps under one name; instants left out; an event that averaging folds into its caller is not counted, but its self
// time goes to the row that it ends up in.

import { EVENT_FLAGS } from "../payload/derive.js";
import { shortName } from "../payload/payload.js";
import { slicesOf } from "../shared/slices.js";

/** @import { TraceData } from "../payload/payload.js" */

/**
 * What every aggregation needs.
 *
 * @typedef {object} CostBasis
 * @property {Float64Array} self Self time after folding, ns, by event.
 * @property {Int32Array} key What each event is counted under: twice the name, and 1 more on devices; -1 where it is not.
 * @property {number[]} steps Names of profiler steps.
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
/**
 * Sums by key: those of a key are SUMS values in a row, so that an event changes one line of the cache.
 *
 * @typedef {Float64Array} Sums
 */

const FIRST = 0;
const COUNT = 1;
const TOTAL = 2;
const SELF = 3;
const COST = 4;
const MIN = 5;
const MAX = 6;
const SPREAD = 7;
const SUMS = 8;
const STEP_NAME = "ProfilerStep*";
const UNCOUNTED_CATS = new Set(["Trace", "overhead", "gpu_user_annotation", "cuda_sync"]);

/**
 * What every aggregation of `data` needs, computed once: self time after folding, and the key of each event.
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
  const steps = data.header.step_names;
  return { self, key: keysOf(data, steps), steps };
}

/**
 * @param {TraceData} data
 * @param {number[]} steps
 */
function keysOf({ n, flags, lane, name, header }, steps) {
  const group = Uint32Array.from(header.names.keys());
  for (const id of steps) group[id] = steps[0];
  const device = Uint8Array.from(header.lanes, ({ kind }) => +(kind === "device"));
  const skip = EVENT_FLAGS.folded | EVENT_FLAGS.instant;
  const key = new Int32Array(n);
  for (let i = 0; i < n; i++) key[i] = flags[i] & skip ? -1 : group[name[i]] * 2 + device[lane[i]];
  return key;
}

/**
 * A row per name and side over the events of `mask`, all where null.
 *
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {Uint8Array | null} mask
 * @returns {Generator<void, CostRow[]>}
 */
export function* aggregate(data, basis, mask) {
  const sums = emptySums(2 * data.header.names.length);
  for (const [from, stop] of slicesOf(0, data.n)) {
    addSlice(data, basis, mask, sums, from, stop);
    yield;
  }
  const means = meansOf(sums);
  for (const [from, stop] of slicesOf(0, data.n)) {
    addSpreads(data, basis, mask, means, sums, from, stop);
    yield;
  }
  // In the order in which they are met.
  const keys = [...means.keys()].filter((key) => sums[key * SUMS + COUNT]);
  keys.sort((a, b) => sums[a * SUMS + FIRST] - sums[b * SUMS + FIRST]);
  return withShares(keys.map((key) => rowOf(data, basis, sums, key)));
}

/**
 * @param {number} num
 * @returns {Sums}
 */
function emptySums(num) {
  const sums = new Float64Array(num * SUMS);
  for (let at = 0; at < sums.length; at += SUMS) {
    sums[at + MIN] = Infinity;
    sums[at + MAX] = -Infinity;
  }
  return sums;
}

/** @param {Sums} sums */
function meansOf(sums) {
  return Float64Array.from({ length: sums.length / SUMS }, (_, k) => sums[k * SUMS + TOTAL] / sums[k * SUMS + COUNT]);
}

/**
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {Uint8Array | null} mask
 * @param {Sums} sums
 * @param {number} from
 * @param {number} stop
 */
function addSlice({ flags, dur }, { self, key }, mask, sums, from, stop) {
  for (let i = from; i < stop; i++) {
    if ((mask !== null && !mask[i]) || key[i] < 0) continue;
    const at = key[i] * SUMS;
    const time = dur[i];
    const own = self[i];
    if (sums[at + COUNT] === 0) sums[at + FIRST] = i;
    sums[at + COUNT] += 1;
    sums[at + TOTAL] += time;
    sums[at + SELF] += own;
    if (!(flags[i] & EVENT_FLAGS.waiting)) sums[at + COST] += own;
    if (time < sums[at + MIN]) sums[at + MIN] = time;
    if (time > sums[at + MAX]) sums[at + MAX] = time;
  }
}

/**
 * Adds the squares of the distances from the mean: those of the nanoseconds would lose the digits that matter.
 *
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {Uint8Array | null} mask
 * @param {Float64Array} means
 * @param {Sums} sums
 * @param {number} from
 * @param {number} stop
 */
function addSpreads({ dur }, { key }, mask, means, sums, from, stop) {
  for (let i = from; i < stop; i++) {
    if ((mask !== null && !mask[i]) || key[i] < 0) continue;
    const off = dur[i] - means[key[i]];
    sums[key[i] * SUMS + SPREAD] += off * off;
  }
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
  const own = sums.subarray(key * SUMS, (key + 1) * SUMS);
  const [count, total] = [own[COUNT], own[TOTAL]];
  return {
    ids: isStep ? basis.steps : [id],
    name: isStep ? STEP_NAME : data.header.names[id],
    short: isStep ? STEP_NAME : shortName(data.header, id),
    side: key & 1,
    cat: data.header.cats[data.cat[own[FIRST]]],
    count,
    total,
    self: own[SELF],
    cost: own[COST],
    min: own[MIN],
    max: own[MAX],
    mean: total / count,
    std: count > 1 ? Math.sqrt(own[SPREAD] / (count - 1)) : null,
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
