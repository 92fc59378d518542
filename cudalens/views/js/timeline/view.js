// Time and lanes against pixels: the window in time, round tick marks, and where every lane stands.

import { uiDuration } from "../shared/dom.js";

export const TL_ROW = 18;
export const TL_RULER = 24;
export const TL_OVERVIEW = 26;
export const TL_HEAD = TL_RULER + TL_OVERVIEW;
const TL_LANE_PAD = 4;
const TL_SHORTEST = 20;

// First start and last end of the events, ns; at least 1 ns apart. Where `isWork`, the profiler's own marks and instants do
// not count: they may stand far from everything else.
export function timelineExtent(data, isWork = false) {
  let low = Infinity;
  let high = -Infinity;
  const isMark = data.header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < data.n; i++) {
    if (isWork && (isMark[data.cat[i]] || data.flags[i] & 1)) continue;
    if (data.start[i] < low) low = data.start[i];
    const end = data.start[i] + data.dur[i];
    if (end > high) high = end;
  }
  if (low === Infinity) return isWork ? timelineExtent(data) : [0, 1000];
  return [low, Math.max(high, low + 1)];
}

// The window [t0, t1] brought into bounds: not shorter than TL_SHORTEST ns, not longer than the trace and its margins.
export function clampWindow([t0, t1], extent) {
  const whole = (extent[1] - extent[0]) * 1.04;
  const span = Math.min(Math.max(t1 - t0, Math.min(TL_SHORTEST, whole)), whole);
  const middle = (t0 + t1) / 2;
  // At least a tenth of the window keeps showing the trace.
  const low = extent[0] - span * 0.9;
  const high = extent[1] - span * 0.1;
  const from = span >= whole ? (extent[0] + extent[1] - whole) / 2 : Math.min(Math.max(middle - span / 2, low), high);
  return [from, from + span];
}

export function fitWindow(extent) {
  const margin = (extent[1] - extent[0]) * 0.02;
  return [extent[0] - margin, extent[1] + margin];
}

// Round times within [t0, t1], about one every `gap` pixels, with what the ruler writes beside each.
export function rulerTicks(t0, t1, width, gap = 110) {
  const raw = ((t1 - t0) * gap) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, [1, 2, 5, 10].find((k) => k * power >= raw * 0.999) * power);
  const ticks = [];
  for (let k = Math.ceil(t0 / step); k * step <= t1 && ticks.length < 200; k++) {
    ticks.push({ t: k * step, text: tickText(k * step, step) });
  }
  return { ticks, step };
}

// One unit for the whole ruler (that of the largest time shown), with as many decimals as the step needs.
function tickText(t, step) {
  const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([k]) => Math.abs(t) >= k) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return t === 0 ? "0" : `${(t / scale).toFixed(decimals)} ${unit}`;
}

// A moment to the nanosecond.
export function exactTime(t) {
  const [scale, unit, decimals] = [[1e9, "s", 9], [1e6, "ms", 6], [1e3, "µs", 3]].find(([k]) => Math.abs(t) >= k) ?? [1, "ns", 0];
  return `${(t / scale).toFixed(decimals)} ${unit}`;
}

// Where each lane stands below the ruler, px: tops[l], how many rows of it show, and the sum of all.
export function layoutLanes(heights, collapsed) {
  const tops = new Float64Array(heights.length + 1);
  const shown = new Uint16Array(heights.length);
  heights.forEach((height, l) => {
    shown[l] = collapsed.has(l) ? 1 : height;
    tops[l + 1] = tops[l] + shown[l] * TL_ROW + 2 * TL_LANE_PAD;
  });
  return { tops, shown, total: tops[heights.length] };
}

// Lane at y px below the ruler (scrolling included), -1 above the first and beyond the last.
export function laneAtY(layout, y) {
  const { tops } = layout;
  if (y < 0 || y >= layout.total) return -1;
  let low = 0;
  let high = tops.length - 2;
  while (low < high) {
    const mid = (low + high + 1) >> 1;
    if (tops[mid] <= y) low = mid;
    else high = mid - 1;
  }
  return low;
}

export function rowTop(layout, lane, row) {
  return layout.tops[lane] + TL_LANE_PAD + row * TL_ROW;
}

// Lane and row at y px below the ruler; null between lanes.
export function rowAtY(layout, y) {
  const lane = laneAtY(layout, y);
  if (lane < 0) return null;
  const row = Math.floor((y - layout.tops[lane] - TL_LANE_PAD) / TL_ROW);
  return row >= 0 && row < layout.shown[lane] ? { lane, row } : null;
}

// What a screen reader says of event i.
export function spokenEvent(data, i) {
  const { names, cats, lanes } = data.header;
  const parts = [names[data.name[i]].slice(0, 200) || "no name", cats[data.cat[i]] || "no category"];
  parts.push(data.flags[i] & 1 ? "an instant" : `lasts ${uiDuration(data.dur[i])}`);
  parts.push(`starts at ${uiDuration(data.start[i])}`, `on ${lanes[data.lane[i]].label}`);
  if (data.launch[i] >= 0) parts.push(`launched by ${names[data.name[data.launch[i]]].slice(0, 100)}`);
  return parts.join(", ");
}

// A name as it is written on a block: what every kernel of torch has in common is left out.
export function blockLabel(name) {
  const short = name.slice(0, 300).replace(/^void /, "").replaceAll("(anonymous namespace)::", "").replaceAll("at::native::", "");
  return short || name.slice(0, 300);
}

// The part of a label that tells it from its neighbours, for blocks too narrow for all of it.
export function shortLabel(label) {
  return label.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /, "") || label;
}
