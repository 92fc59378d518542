// The row in trace.events of an event, and the event of a row. Lanes are merged by (start, longest first, lane); a search
// in each lane takes the place of sorting a million events.

/** @import { Ints } from "./codec.js" */
/** @import { Times } from "./derive.js" */

/** @typedef {{ rowOf: (event: number) => number, eventOf: (row: number) => number }} Rows The event is -1 for none. */

/**
 * @param {Times} data
 * @param {Ints} at Distances between the places that are corrected.
 * @param {Ints} off What is added to each of these places.
 * @returns {Rows}
 */
export function createRows({ start, dur, header, n }, at, off) {
  const ends = laneEnds(header.lanes);
  const first = header.first_row;
  /** @type {Map<number, number>} */
  const corrected = new Map();
  /** @type {Map<number, number>} */
  const placeOfRow = new Map();
  for (let k = 0, place = 0; k < at.length; k++) {
    place += at[k];
    corrected.set(place, place + off[k]);
    placeOfRow.set(place + off[k], place);
  }
  /** The number of events of the lanes that begin before t. */
  const before = (/** @type {number} */ t) =>
    ends.reduce((sum, { from, to }) => sum + firstIndex(from, to, (i) => start[i] >= t) - from, 0);
  const eventAt = (/** @type {number} */ place) => {
    const t = lastTime(place, start, ends, before);
    /** @type {number[]} */
    const equal = [];
    for (const { from, to } of ends) {
      for (let i = firstIndex(from, to, (k) => start[k] >= t); i < to && start[i] === t; i++) equal.push(i);
    }
    // A stable sort keeps the order of the lanes.
    return equal.sort((a, b) => dur[b] - dur[a])[place - before(t)];
  };
  return {
    rowOf(event) {
      const own = ends.findIndex(({ to }) => event < to);
      let place = event - ends[own].from;
      ends.forEach(({ from, to }, l) => {
        if (l === own) return;
        // Of equal events, that of the earlier lane is first.
        const isAfter = (/** @type {number} */ i) =>
          start[i] > start[event] ||
          (start[i] === start[event] && (l < own ? dur[i] < dur[event] : dur[i] <= dur[event]));
        place += firstIndex(from, to, isAfter) - from;
      });
      return first + (corrected.get(place) ?? place);
    },
    eventOf(row) {
      const place = row - first;
      return Number.isInteger(place) && place >= 0 && place < n ? eventAt(placeOfRow.get(place) ?? place) : -1;
    },
  };
}

/**
 * The events of each lane.
 *
 * @param {{ count: number }[]} lanes
 */
function laneEnds(lanes) {
  let to = 0;
  return lanes.map(({ count }) => {
    to += count;
    return { from: to - count, to };
  });
}

/**
 * The first index in [from, to) for which `isAfter` holds, as it does for all later ones; `to` where there is none.
 *
 * @param {number} from
 * @param {number} to
 * @param {(index: number) => boolean} isAfter
 */
function firstIndex(from, to, isAfter) {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isAfter(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * The start of the event at a place: the last whole time before which no more than `place` events begin.
 *
 * @param {number} place
 * @param {Float64Array} start
 * @param {{ from: number, to: number }[]} ends
 * @param {(t: number) => number} before
 */
function lastTime(place, start, ends, before) {
  const filled = ends.filter(({ from, to }) => to > from);
  let low = Math.min(...filled.map(({ from }) => start[from]));
  let high = Math.max(...filled.map(({ to }) => start[to - 1])) + 1;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (before(middle) <= place) low = middle;
    else high = middle;
  }
  return low;
}
