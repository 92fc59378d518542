// The bar that lists what is selected, measures it, and steps from it to other events.

import { shortName } from "../payload/payload.js";
import { element } from "../shared/dom.js";
import { formatCount, formatDuration, formatPercent, formatPlural } from "../shared/format.js";
import { copyButton } from "./copy.js";
import { markField } from "./marks.js";
import { measureRange } from "./measure.js";
import { pandasExpression } from "./pandas.js";
import { stepSameName } from "./same_name.js";
import { selectedMask } from "./selection.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { Mark } from "./marks.js" */
/** @import { Measured } from "./measure.js" */
/** @import { Selection, SelectionStore } from "./selection.js" */

/**
 * @typedef {object} BarActions
 * @property {() => string | null} link The address of what shows; null where there is none.
 * @property {(mark: Mark) => void} mark Adds a mark.
 */

/**
 * @param {HTMLElement} bar
 * @param {TraceData} data
 * @param {SelectionStore} store
 * @param {BarActions} actions
 * @returns {Generator<void>}
 */
export function* showBar(bar, data, store, actions) {
  const selection = store.get();
  const mask = selectedMask(data, selection);
  bar.hidden = mask === null;
  if (mask === null) return;
  let number = 0;
  for (let i = 0; i < data.n; i++) number += mask[i];
  const measured = selection.range
    ? [measureText(data, selection.range, yield* measureRange(data, selection.range))]
    : [];
  const link = actions.link();
  bar.replaceChildren(
    element("span", { class: "cl-bar-count" }, `${formatPlural(number, "event")} of ${formatCount(data.n)} selected`),
    ...selectionTexts(data, selection).map(([key, text]) => selectionChip(store, key, text)),
    ...measured.map((text) => element("span", { class: "cl-measure" }, text)),
    ...sameNameButtons(data, store),
    ...markField(data, selection, actions.mark),
    copyButton(
      "Copy pandas",
      "Copy the expression that selects these rows",
      pandasExpression(data, selection),
      "More than 2,000 rows",
    ),
    ...(link === null ? [] : [copyButton("Copy link", "Copy the address of what shows", link)]),
    element(
      "button",
      { class: "cl-button cl-clear", type: "button", onclick: () => store.clear("bar") },
      "Clear selection",
    ),
  );
}

/**
 * @param {TraceData} data
 * @param {TimeRange} range
 * @param {Measured} measured
 */
function measureText(data, range, { busy, idle, work, calls }) {
  const host = `${formatPlural(calls, "CPU event")}`;
  if (!data.header.lanes.some(({ kind, count }) => kind === "device" && count)) return host;
  const share = formatPercent((100 * busy) / (range[1] - range[0]));
  return `GPU busy ${formatDuration(busy)} (${share}), idle ${formatDuration(idle)}; ${formatPlural(work, "GPU event")}, ${host}`;
}

/**
 * Buttons to the previous and next event of the selected name.
 *
 * @param {TraceData} data
 * @param {SelectionStore} store
 */
function sameNameButtons(data, store) {
  const { event, names } = store.get();
  if (event === null && names === null) return [];
  const go = (/** @type {1 | -1} */ by) => () => {
    const found = stepSameName(data, store.get(), by);
    if (found) store.set({ event: found.event, names: null, range: null }, "bar");
  };
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {1 | -1} */ by) =>
    element("button", { class: "cl-button", type: "button", title, "aria-label": title, onclick: go(by) }, text);
  if (event === null) return [button("Go to the longest", "Select the longest event of this name", 1)];
  return [
    button("‹ same name", "Previous event of this name", -1),
    button("same name ›", "Next event of this name", 1),
  ];
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
  if (event !== null) texts.push(["event", `within ${shortName(data.header, data.name[event])}`]);
  if (names) {
    const [first] = [...names].map((id) => shortName(data.header, id));
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
