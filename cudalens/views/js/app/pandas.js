// The expression that selects the same rows of trace.events in pandas.

import { selectedMask } from "./selection.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { Selection } from "./selection.js" */

const MAX_ROWS = 2000;

/**
 * A Python expression for what is selected; null where it would be too long.
 *
 * @param {TraceData} data
 * @param {Selection} selection
 * @returns {string | null}
 */
export function pandasExpression(data, selection) {
  const { range, event, names } = selection;
  if (event !== null) return rowsExpression(data, selection);
  const parts = [];
  if (range) {
    const at = (/** @type {number} */ t) => String(BigInt(data.header.t0) + BigInt(t));
    const [low, high] = [Math.floor(range[0]), Math.ceil(range[1])];
    parts.push(
      `((e.ts < ${at(high)}) & (e.ts + e.dur > ${at(low)}) & (e.dur > 0)` +
        ` | (e.dur == 0) & e.ts.between(${at(Math.ceil(range[0]))}, ${at(Math.floor(range[1]))}))`,
    );
  }
  if (names) parts.push(`e.name.isin(${namesExpression(data, names)})`);
  const { first_row: first } = data.header;
  const events = first ? `trace.events.iloc[${first}:]` : "trace.events"; // a part has the last events
  return parts.length ? `${events}[lambda e: ${parts.join(" & ")}]` : events;
}

/**
 * The names as texts; where the page has cut ones, as those of some rows.
 *
 * @param {TraceData} data
 * @param {Set<number>} names
 */
function namesExpression(data, names) {
  const rows = rowsOfCutNames(data, names);
  if (rows) return `trace.events.name.iloc[[${rows.join(", ")}]]`;
  return pythonList([...names].map((id) => data.header.names[id]));
}

/**
 * For each name the row of an event that has it; null where the page has all names whole.
 *
 * @param {TraceData} data
 * @param {Set<number>} names
 */
export function rowsOfCutNames(data, names) {
  return data.header.are_names_cut ? [...names].map((id) => data.rowOf(data.name.indexOf(id))) : null;
}

/**
 * The rows by their numbers.
 *
 * @param {TraceData} data
 * @param {Selection} selection
 */
function rowsExpression(data, selection) {
  const mask = selectedMask(data, selection);
  /** @type {number[]} */
  const events = [];
  for (let i = 0; i < data.n; i++) {
    if (mask?.[i]) events.push(i);
    if (events.length > MAX_ROWS) return null;
  }
  const rows = events.map((i) => data.rowOf(i)).sort((a, b) => a - b);
  return `trace.events.iloc[[${rows.join(", ")}]]`;
}

/**
 * Texts as a Python list; JSON's escapes are Python's, for ASCII.
 *
 * @param {string[]} texts
 */
function pythonList(texts) {
  const escaped = (/** @type {string} */ text) =>
    JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `[${texts.map(escaped).join(", ")}]`;
}
