// Marks with notes: the list below the timeline, and the field that adds one for what is selected.

import { element } from "../shared/dom.js";
import { formatDuration } from "../shared/format.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { Selection } from "./selection.js" */

/** @typedef {{ at: number, dur: number, note: string }} Mark Times in ns from the trace's start. */

/**
 * @typedef {object} MarksOptions
 * @property {(marks: Mark[]) => void} onChange After the reader added or removed one.
 * @property {(mark: Mark) => void} onShow The reader wants to see one in the timeline.
 */

/**
 * @typedef {object} MarksView
 * @property {Mark[]} marks
 * @property {(mark: Mark) => void} add
 * @property {(marks: Mark[]) => void} replace Shows other marks; does not call `onChange`.
 */

const MAX_NOTE = 500;

/**
 * Builds the list of marks in `host`.
 *
 * @param {HTMLElement} host
 * @param {Mark[]} first
 * @param {MarksOptions} options
 * @returns {MarksView}
 */
export function createMarks(host, first, { onChange, onShow }) {
  const list = element("ul", { class: "cl-mark-list", "aria-label": "Marks" });
  host.replaceChildren(list);
  const change = (/** @type {Mark[]} */ marks) => {
    show(marks);
    onChange(marks);
  };
  const show = (/** @type {Mark[]} */ marks) => {
    view.marks = [...marks].sort((a, b) => a.at - b.at);
    host.hidden = marks.length === 0;
    list.replaceChildren(...view.marks.map(item));
  };
  const item = (/** @type {Mark} */ mark) => {
    const text = mark.note || "(no note)";
    const when = mark.dur ? `${formatDuration(mark.at)}, ${formatDuration(mark.dur)} long` : formatDuration(mark.at);
    const remove = () => change(view.marks.filter((one) => one !== mark));
    return element(
      "li",
      {},
      element("button", { class: "cl-mark", type: "button", title: when, onclick: () => onShow(mark) }, text),
      element("span", { class: "cl-hint" }, when),
      element("button", { type: "button", "aria-label": `Remove the mark ${text}`, onclick: remove }, "×"),
    );
  };
  /** @type {MarksView} */
  const view = {
    marks: [],
    add: (mark) => change([...view.marks, mark]),
    replace: show,
  };
  show(first);
  return view;
}

/**
 * A field that marks what is selected; nothing where only names are.
 *
 * @param {TraceData} data
 * @param {Selection} selection
 * @param {(mark: Mark) => void} onAdd
 */
export function markField(data, { range, event }, onAdd) {
  const span = range ?? (event === null ? null : spanOf(data, event));
  if (span === null) return [];
  const note = element("input", {
    class: "cl-note",
    type: "text",
    maxlength: MAX_NOTE,
    placeholder: "Note",
    "aria-label": "Note of the mark",
    "data-lm-suppress-shortcuts": "true",
  });
  const add = () => {
    onAdd({ at: Math.round(span[0]), dur: Math.round(span[1] - span[0]), note: note.value.trim() });
    note.value = "";
  };
  note.addEventListener("keydown", (press) => {
    press.stopPropagation();
    if (press.key === "Enter") add();
  });
  return [
    note,
    element("button", { class: "cl-button", type: "button", title: "Mark the selected time", onclick: add }, "Mark"),
  ];
}

/**
 * @param {TraceData} data
 * @param {number} event
 * @returns {TimeRange}
 */
function spanOf({ start, dur }, event) {
  return [start[event], start[event] + dur[event]];
}
