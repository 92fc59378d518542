// The buttons around the memory map.

import { element } from "../shared/dom.js";

/** @typedef {{ group: HTMLElement, mark: (key: string) => void }} Choice `mark` shows a button as pressed. */

/**
 * Buttons of which one is pressed.
 *
 * @template {string} Key
 * @param {string} label
 * @param {[Key, string][]} entries Key and text of each.
 * @param {Key} current
 * @param {(key: Key) => void} onChange
 * @returns {Choice}
 */
export function buttonChoice(label, entries, current, onChange) {
  const buttons = entries.map(([key, text]) => {
    const press = () => {
      mark(key);
      onChange(key);
    };
    const isPressed = String(key === current);
    const attributes = {
      type: "button",
      class: "cl-button",
      "data-key": key,
      "aria-pressed": isPressed,
      onclick: press,
    };
    return element("button", attributes, text);
  });
  const mark = (/** @type {string} */ key) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
  };
  const attributes = { class: "mm-choice", role: "group", "aria-label": label };
  return { group: element("div", attributes, element("span", { class: "mm-muted" }, label), ...buttons), mark };
}

/**
 * @param {string} text
 * @param {string} title
 * @param {() => void} onclick
 */
export function actionButton(text, title, onclick) {
  // A name must contain the text that shows, where that is a word.
  const label = /[a-z]/i.test(text) ? null : title;
  return element("button", { type: "button", class: "cl-button", title, "aria-label": label, onclick }, text);
}

export function seriesLegend() {
  const keys = ["allocated", "active", "reserved"].map((name) =>
    element("span", { class: "mm-key" }, element("i", { class: `mm-line-${name}` }), name),
  );
  return element("p", { class: "mm-legend" }, ...keys);
}
