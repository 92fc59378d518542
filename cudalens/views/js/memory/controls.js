// The buttons around the memory map.

import { uiElement } from "../shared/dom.js";

// Buttons of which one is pressed; `mark(key)` presses without telling.
export function mmChoice(label, entries, current, onChange) {
  const buttons = entries.map(([key, text]) => uiElement("button", { type: "button", class: "cl-button", "data-key": key,
    "aria-pressed": String(key === current), onclick: () => press(key) }, text));
  const mark = (key) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
  };
  const press = (key) => {
    mark(key);
    onChange(key);
  };
  const group = uiElement("div", { class: "mm-choice", role: "group", "aria-label": label }, uiElement("span", { class: "mm-muted" }, label), ...buttons);
  return Object.assign(group, { mark });
}

export const mmButton = (text, title, onclick) => uiElement("button", { type: "button", class: "cl-button", title, "aria-label": title, onclick }, text);

export function mmSeriesLegend() {
  return uiElement("p", { class: "mm-legend" }, ...["allocated", "active", "reserved"].map((name) =>
    uiElement("span", { class: "mm-key" }, uiElement("i", { class: `mm-line-${name}` }), name)));
}
