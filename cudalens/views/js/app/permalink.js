// What a report shows, in the part of its address after "#": the window of time, and what is selected.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { Selection } from "./selection.js" */

/** @typedef {{ view: TimeRange | null, selection: Partial<Selection> }} Shown */

const MAX_NAMES = 20;

/**
 * `#t=0-1500&s=200-300&e=12&n=aten::mm`: window and selected time in ns from the start, row of trace.events, names.
 *
 * @param {TraceData} data
 * @param {TimeRange} view
 * @param {Selection} selection
 */
export function hashOf(data, view, { range, event, names }) {
  const parts = [`t=${rangeText(view)}`];
  if (range) parts.push(`s=${rangeText(range)}`);
  if (event !== null) parts.push(`e=${data.rowOf(event)}`);
  for (const id of [...(names ?? [])].slice(0, MAX_NAMES)) parts.push(`n=${encodeURIComponent(data.header.names[id])}`);
  return `#${parts.join("&")}`;
}

/** @param {TimeRange} range */
function rangeText([from, to]) {
  return `${Math.round(from)}-${Math.round(to)}`.replace("--", "-n").replace(/^-/, "n");
}

/**
 * What an address asks for; parts that this trace does not have are left out.
 *
 * @param {TraceData} data
 * @param {string} hash
 * @returns {Shown}
 */
export function shownOf(data, hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  /** @type {Partial<Selection>} */
  const selection = {};
  const range = rangeOf(fields.get("s"));
  if (range) selection.range = range;
  const row = Number.parseInt(fields.get("e") ?? "", 10);
  const event = Number.isInteger(row) ? data.eventOf(row) : -1;
  if (event >= 0) selection.event = event;
  const names = fields.getAll("n").map((name) => data.header.names.indexOf(name));
  const known = names.filter((id) => id >= 0);
  if (known.length) selection.names = new Set(known);
  return { view: rangeOf(fields.get("t")), selection };
}

/**
 * @param {string | null} text
 * @returns {TimeRange | null}
 */
function rangeOf(text) {
  const found = /^(n?\d{1,16})-(n?\d{1,16})$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [found[1], found[2]].map((part) => Number(part.replace("n", "-")));
  return from < to ? [from, to] : null;
}
