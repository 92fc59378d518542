// The readings that this page has received, for views that open later: the kernel may be busy when they ask.

/**
 * Readings of all GPUs at one time.
 *
 * @typedef {object} Moment
 * @property {number} t ms
 * @property {(number | string | null)[][]} rows Of each GPU: a value per gauge, and why its clocks are throttled.
 */

const MAX_MOMENTS = 240;

/** @type {Moment[]} */
let moments = [];

/** @returns {readonly Moment[]} In time order. */
export function seenMoments() {
  return moments;
}

/** @param {Partial<Moment> | undefined} moment */
export function keepMoment(moment) {
  const { t, rows } = moment ?? {};
  if (t === undefined || !rows || moments.some((seen) => seen.t === t)) return;
  moments.push({ t, rows });
  moments.sort((a, b) => a.t - b.t);
  moments = moments.slice(-MAX_MOMENTS);
}

export function forgetMoments() {
  moments = [];
}
