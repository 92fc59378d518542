// Costs by name over the selected events, by the definition of cudalens.analysis.key_averages: host and device apart;
// an event that averaging folds into its caller is not counted, but its self time goes to the same name.

const FLAG_FOLDED = 2;

export function aggregate(data, mask) {
  const kinds = data.header.lanes.map((lane) => (lane.kind === "device" ? 1 : 0));
  const rows = new Map();
  const totals = [0, 0];
  for (let i = 0; i < data.n; i++) {
    if (mask !== null && !mask[i]) continue;
    const side = kinds[data.lane[i]];
    const key = data.name[i] * 2 + side;
    let row = rows.get(key);
    if (row === undefined) rows.set(key, (row = emptyRow(data, i, side)));
    row.self += data.self[i];
    totals[side] += data.self[i];
    if (!(data.flags[i] & FLAG_FOLDED)) count(row, data.dur[i]);
  }
  return [...rows.values()].filter((row) => row.count > 0).map((row) => finish(row, totals[row.side]));
}

function emptyRow(data, i, side) {
  return {
    id: data.name[i], name: data.header.names[data.name[i]], side, cat: data.header.cats[data.cat[i]],
    count: 0, total: 0, self: 0, min: Infinity, max: 0, mean: 0, spread: 0,
  };
}

// Welford's update: a sum of squares of nanoseconds would lose the digits that matter.
function count(row, dur) {
  row.count += 1;
  row.total += dur;
  row.min = Math.min(row.min, dur);
  row.max = Math.max(row.max, dur);
  const off = dur - row.mean;
  row.mean += off / row.count;
  row.spread += off * (dur - row.mean);
}

function finish(row, total) {
  return {
    ...row,
    mean: row.total / row.count,
    std: row.count > 1 ? Math.sqrt(row.spread / (row.count - 1)) : 0,
    share: total > 0 ? (100 * row.self) / total : 0,
  };
}
