// The list of lanes below the toolbar: buttons that pin, move and fold each lane, and a field that filters it.

import { element } from "../shared/dom.js";
import { filterLane, foldLane, moveLane, pinLane } from "./lanes.js";
import { listen } from "./state.js";

/** @import { Timeline } from "./state.js" */

/**
 * @typedef {object} LanesPanel
 * @property {() => void} update Shows the order and state of the lanes.
 */

/**
 * Opens and closes the list with its button of the toolbar; it is built when it is first opened.
 *
 * @param {Timeline} timeline
 */
export function listenToLanesButton(timeline) {
  const { lanesButton, lanes } = timeline.dom;
  listen(timeline, lanesButton, "click", () => {
    timeline.lanesPanel ??= createLanesPanel(timeline);
    lanes.hidden = !lanes.hidden;
    lanesButton.setAttribute("aria-expanded", String(!lanes.hidden));
    timeline.lanesPanel.update();
  });
}

/**
 * @param {Timeline} timeline
 * @returns {LanesPanel}
 */
function createLanesPanel(timeline) {
  const items = timeline.data.header.lanes.map((_, lane) => laneItem(timeline, lane));
  const list = element("ul", { "aria-label": "Lanes" });
  timeline.dom.lanes.replaceChildren(list);
  return {
    update() {
      const { activeElement } = document;
      list.append(...timeline.order.map((lane) => items[lane].node));
      for (const item of items) item.update();
      // An element that is moved loses the focus.
      if (activeElement instanceof HTMLElement && list.contains(activeElement)) activeElement.focus();
    },
  };
}

/**
 * @param {Timeline} timeline
 * @param {number} lane
 */
function laneItem(timeline, lane) {
  const { label } = timeline.data.header.lanes[lane];
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ press) =>
    element("button", { type: "button", title, "aria-label": `${title}: ${label}`, onclick: press }, text);
  const pin = button("Pin", "Pin on top", () => pinLane(timeline, lane));
  const up = button("↑", "Move up", () => moveLane(timeline, lane, timeline.order.indexOf(lane) - 1));
  const down = button("↓", "Move down", () => moveLane(timeline, lane, timeline.order.indexOf(lane) + 1));
  const fold = button("Fold", "Fold to one row", () => foldLane(timeline, lane));
  fold.disabled = timeline.rows.heights[lane] < 2;
  const filter = element("input", {
    type: "search",
    placeholder: "Filter names",
    "aria-label": `Filter names: ${label}`,
  });
  filter.addEventListener("input", () => filterLane(timeline, lane, filter.value));
  for (const node of [pin, up, down, fold, filter]) node.setAttribute("data-lm-suppress-shortcuts", "true");
  const name = element("span", { class: "cltl-lane", title: label }, label);
  return {
    node: element("li", {}, pin, up, down, fold, name, filter),
    update() {
      pin.setAttribute("aria-pressed", String(timeline.pinned.has(lane)));
      fold.setAttribute("aria-pressed", String(timeline.collapsed.has(lane)));
    },
  };
}
