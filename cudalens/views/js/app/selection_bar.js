// The bar that lists what is selected.

import { element } from "../shared/dom.js";
import { formatCount, formatDuration, formatPlural } from "../shared/format.js";
import { selectedMask } from "./selection.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { Selection, SelectionStore } from "./selection.js" */

/**
 * @param {HTMLElement} bar
 * @param {TraceData} data
 * @param {SelectionStore} store
 */
export function showBar(bar, data, store) {
  const selection = store.get();
  const mask = selectedMask(data, selection);
  bar.hidden = mask === null;
  if (mask === null) return;
  const number = mask.reduce((sum, one) => sum + one, 0);
  bar.replaceChildren(
    element("span", { class: "cl-bar-count" }, `${formatPlural(number, "event")} of ${formatCount(data.n)} selected`),
    ...selectionTexts(data, selection).map(([key, text]) => selectionChip(store, key, text)),
    element(
      "button",
      { class: "cl-button cl-clear", type: "button", onclick: () => store.clear("bar") },
      "Clear selection",
    ),
  );
}

/**
 * @param {TraceData} data
 * @param {Selection} selection
 */
function selectionTexts(data, { range, event, names }) {
  /** @type {[key: keyof Selection, text: string][]} */
  const texts = [];
  if (range) {
    const [from, to] = range;
    texts.push(["range", `${formatDuration(from)} – ${formatDuration(to)} (${formatDuration(to - from)})`]);
  }
  if (event !== null) texts.push(["event", `within ${data.header.names[data.name[event]]}`]);
  if (names) {
    const [first] = [...names].map((id) => data.header.names[id]);
    texts.push(["names", names.size === 1 ? first : `${first} and ${names.size - 1} more`]);
  }
  return texts;
}

/**
 * @param {SelectionStore} store
 * @param {keyof Selection} key
 * @param {string} text
 */
function selectionChip(store, key, text) {
  const drop = () => store.set({ [key]: null }, "bar");
  return element(
    "span",
    { class: "cl-chip", title: text },
    element("span", {}, text),
    element("button", { type: "button", "aria-label": `Stop selecting ${text}`, onclick: drop }, "×"),
  );
}
