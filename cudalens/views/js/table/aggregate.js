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

/** @typedef {Omit<CostRow, "std" | "share"> & { spread: number, cost: number }} RunningRow The cost is self
 * time, without Python calls in which a thread only waits. */

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
  const skip = EVENT_FLAGS.folded | EVENT_FLAGS.instant;
  /** @type {Map<number, RunningRow>} */
  const rows = new Map();
  for (let i = 0; i < data.n; i++) {
    if ((mask !== null && !mask[i]) || data.flags[i] & skip) continue;
    const side = basis.device[data.lane[i]];
    const key = basis.group[data.name[i]] * 2 + side;
    let row = rows.get(key);
    if (row === undefined) {
      row = emptyRow(data, basis, i, side);
      rows.set(key, row);
    }
    row.self += basis.self[i];
    if (!(data.flags[i] & EVENT_FLAGS.waiting)) row.cost += basis.self[i];
    addDuration(row, data.dur[i]);
  }
  return withShares([...rows.values()]);
}

/**
 * @param {TraceData} data
 * @param {CostBasis} basis
 * @param {number} i
 * @param {number} side
 * @returns {RunningRow}
 */
function emptyRow(data, basis, i, side) {
  const id = basis.group[data.name[i]];
  const isStep = basis.steps.includes(id);
  return {
    ids: isStep ? basis.steps : [id],
    name: isStep ? STEP_NAME : data.header.names[id],
    short: isStep ? STEP_NAME : shortName(data.header, id),
    side,
    cat: data.header.cats[data.cat[i]],
    count: 0,
    total: 0,
    self: 0,
    cost: 0,
    min: Infinity,
    max: -Infinity,
    mean: 0,
    spread: 0,
  };
}

/**
 * Welford's update: a sum of squares of nanoseconds would lose the digits that matter.
 *
 * @param {RunningRow} row
 * @param {number} dur
 */
function addDuration(row, dur) {
  row.count += 1;
  row.total += dur;
  row.min = Math.min(row.min, dur);
  row.max = Math.max(row.max, dur);
  const off = dur - row.mean;
  row.mean += off / row.count;
  row.spread += off * (dur - row.mean);
}

/**
 * @param {RunningRow[]} rows
 * @returns {CostRow[]}
 */
function withShares(rows) {
  const weight = (/** @type {Pick<RunningRow, "cat" | "cost">} */ row) => (UNCOUNTED_CATS.has(row.cat) ? 0 : row.cost);
  const whole = [0, 0];
  for (const row of rows) whole[row.side] += weight(row);
  return rows.map(({ spread, cost, ...row }) => ({
    ...row,
    mean: row.total / row.count,
    std: row.count > 1 ? Math.sqrt(spread / (row.count - 1)) : null,
    share: whole[row.side] > 0 ? (100 * weight({ ...row, cost })) / whole[row.side] : 0,
  }));
}
