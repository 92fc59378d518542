// Costs by name over the selected events, by the definition of cudalens.analysis.key_averages: host and device apart;
// steps under one name; instants left out; an event that averaging folds into its caller is not counted, but its self
// time goes to the row that it ends up in.

import { PAYLOAD_FLAGS } from "../payload/payload.js";

export const STEP_NAME = "ProfilerStep*";
const UNCOUNTED_CATS = new Set(["Trace", "overhead", "gpu_user_annotation", "cuda_sync"]);

// What every aggregation of `data` needs, computed once: self time after folding, and the group of each name.
export function costBasis(data) {
  const self = Float64Array.from(data.self);
  const head = new Int32Array(data.n);
  for (let i = 0; i < data.n; i++) {
    // A parent stands before its children, so its own head is known already.
    head[i] = data.flags[i] & PAYLOAD_FLAGS.folded ? head[data.parent[i]] : i;
    if (head[i] !== i) self[head[i]] += data.self[i];
  }
  const group = Uint32Array.from(data.header.names.keys());
  const steps = data.header.step_names;
  for (const id of steps) group[id] = steps[0];
  const device = Uint8Array.from(data.header.lanes, (lane) => +(lane.kind === "device"));
  return { self, group, steps, device };
}

// A row per (name, side): {ids, name, side, cat, count, total, self, mean, std, min, max, share}; times in ns.
export function aggregate(data, basis, mask) {
  const skip = PAYLOAD_FLAGS.folded | PAYLOAD_FLAGS.instant;
  const rows = new Map();
  for (let i = 0; i < data.n; i++) {
    if ((mask !== null && !mask[i]) || data.flags[i] & skip) continue;
    const side = basis.device[data.lane[i]];
    const key = basis.group[data.name[i]] * 2 + side;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = emptyRow(data, basis, i, side)));
    row.self += basis.self[i];
    addDuration(row, data.dur[i]);
  }
  return withShares([...rows.values()]);
}

function emptyRow(data, basis, i, side) {
  const id = basis.group[data.name[i]];
  const isStep = basis.steps.includes(id);
  return {
    ids: isStep ? basis.steps : [id], name: isStep ? STEP_NAME : data.header.names[id], side,
    cat: data.header.cats[data.cat[i]], count: 0, total: 0, self: 0, min: Infinity, max: -Infinity, mean: 0, spread: 0,
  };
}

// Welford's update: a sum of squares of nanoseconds would lose the digits that matter.
function addDuration(row, dur) {
  row.count += 1;
  row.total += dur;
  row.min = Math.min(row.min, dur);
  row.max = Math.max(row.max, dur);
  const off = dur - row.mean;
  row.mean += off / row.count;
  row.spread += off * (dur - row.mean);
}

function withShares(rows) {
  const weight = (row) => (UNCOUNTED_CATS.has(row.cat) ? 0 : row.self);
  const whole = [0, 0];
  for (const row of rows) whole[row.side] += weight(row);
  return rows.map(({ spread, ...row }) => ({
    ...row,
    mean: row.total / row.count,
    std: row.count > 1 ? Math.sqrt(spread / (row.count - 1)) : null,
    share: whole[row.side] > 0 ? (100 * weight(row)) / whole[row.side] : 0,
  }));
}
