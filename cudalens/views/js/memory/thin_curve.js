// Reduce a curve to the points that a plot can show.

/** @import { TimeRange } from "../timeline/view.js" */
/** @import { PlotSeries } from "./plot.js" */

const MAX_POINTS = 4000;

/**
 * The part of a curve that shows in a window, with one point on either side.
 *
 * @param {PlotSeries} series
 * @param {TimeRange} view
 */
export function curveWithin({ ts, values }, [t0, t1]) {
  let [from, to] = [0, ts.length];
  while (from + 1 < ts.length && ts[from + 1] < t0) from += 1;
  while (to - 2 > from && ts[to - 2] > t1) to -= 1;
  return thinCurve(ts.subarray(from, to), values.subarray(from, to));
}

/**
 * At most MAX_POINTS points of a curve: the smallest and the largest of each stretch, in order, so that no peak is
 * lost.
 *
 * @param {Float64Array} ts
 * @param {Float64Array} values
 */
function thinCurve(ts, values) {
  const n = ts.length;
  if (n <= MAX_POINTS) return { ts: Array.from(ts), values: Array.from(values) };
  const keep = [0];
  const stretch = (n - 2) / (MAX_POINTS / 2 - 1);
  for (let k = 0; k * stretch < n - 2; k++) {
    const [from, to] = [1 + Math.floor(k * stretch), Math.min(n - 1, 1 + Math.floor((k + 1) * stretch))];
    let [low, high] = [from, from];
    for (let i = from; i < to; i++) {
      if (values[i] < values[low]) low = i;
      if (values[i] > values[high]) high = i;
    }
    if (from < to) keep.push(Math.min(low, high), ...(low === high ? [] : [Math.max(low, high)]));
  }
  keep.push(n - 1);
  return { ts: keep.map((i) => ts[i]), values: keep.map((i) => values[i]) };
}
