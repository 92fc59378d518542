// What a report shows, in the part of its address after "#": the window of time, and what is selected.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { Mark } from "./marks.js" */
/** @import { Selection } from "./selection.js" */

/** @typedef {{ view: TimeRange | null, selection: Partial<Selection>, marks: Mark[] }} Shown */

const MAX_NAMES = 20;
const MAX_MARKS = 50;

/**
 * `#t=0-1500&s=200-300&e=12&n=aten::mm&m=200-300:note`: window and selected time in ns from the start, row of
 * trace.events, names, marks.
 *
 * @param {TraceData} data
 * @param {TimeRange} view
 * @param {Selection} selection
 * @param {Mark[]} [marks]
 */
export function hashOf(data, view, { range, event, names }, marks = []) {
  const parts = [`t=${rangeText(view)}`];
  if (range) parts.push(`s=${rangeText(range)}`);
  if (event !== null) parts.push(`e=${data.rowOf(event)}`);
  for (const id of [...(names ?? [])].slice(0, MAX_NAMES)) parts.push(`n=${encodeURIComponent(data.header.names[id])}`);
  for (const { at, dur, note } of marks.slice(0, MAX_MARKS)) {
    parts.push(`m=${rangeText([at, at + dur])}:${encodeURIComponent(note)}`);
  }
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
  return { view: rangeOf(fields.get("t")), selection, marks: fields.getAll("m").slice(0, MAX_MARKS).flatMap(markOf) };
}

/**
 * @param {string} text
 * @returns {Mark[]}
 */
function markOf(text) {
  const [span, ...note] = text.split(":");
  const [from, to] = timesOf(span) ?? [1, 0];
  return from <= to ? [{ at: from, dur: to - from, note: note.join(":") }] : [];
}

/**
 * @param {string | null} text
 * @returns {TimeRange | null}
 */
function rangeOf(text) {
  const found = timesOf(text);
  return found && found[0] < found[1] ? found : null;
}

/**
 * @param {string | null} text
 * @returns {TimeRange | null}
 */
function timesOf(text) {
  const found = /^(n?\d{1,16})-(n?\d{1,16})$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [found[1], found[2]].map((part) => Number(part.replace("n", "-")));
  return [from, to];
}
