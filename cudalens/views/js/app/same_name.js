// Step through the events of one name.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { Selection } from "./selection.js" */

/** @typedef {{ event: number, ordinal: number, count: number }} Step The event; its number among `count`, from 1. */

/**
 * The next or previous event, in order of time, with the name of the selected event, or with one of the selected names;
 * the longest of these where no event is selected. Null where nothing names events.
 *
 * @param {TraceData} data
 * @param {Selection} selection
 * @param {1 | -1} by
 * @returns {Step | null}
 */
export function stepSameName(data, { event, names }, by) {
  const wanted = names ?? (event === null ? null : new Set([data.name[event]]));
  if (wanted === null) return null;
  const isDevice = event === null ? null : data.header.lanes[data.lane[event]].kind;
  /** @type {number[]} */
  const found = [];
  for (let i = 0; i < data.n; i++) {
    const isSide = isDevice === null || names !== null || data.header.lanes[data.lane[i]].kind === isDevice;
    if (wanted.has(data.name[i]) && isSide) found.push(i);
  }
  if (!found.length) return null;
  found.sort((a, b) => data.start[a] - data.start[b] || a - b);
  const at = event === null ? -1 : found.indexOf(event);
  const next = at < 0 ? longest(data, found) : (at + by + found.length) % found.length;
  return { event: found[next], ordinal: next + 1, count: found.length };
}

/**
 * @param {TraceData} data
 * @param {number[]} found
 */
function longest({ dur }, found) {
  return found.reduce((best, i, k) => (dur[i] > dur[found[best]] ? k : best), 0);
}
