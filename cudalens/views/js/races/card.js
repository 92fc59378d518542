// The card of one race: the tree that cudalens/views/races/ makes, with tabs and a button that copies.

import { element, findAll } from "../shared/dom.js";
import { buildElement } from "../shared/markup.js";

/** @import { MarkupElement } from "../shared/markup.js" */

const COPIED_MS = 1500;

/**
 * @param {MarkupElement} tree
 * @returns {Element}
 */
export function buildCard(tree) {
  const card = buildElement(tree);
  const [diff] = findAll(card, ".cl-race-code", HTMLElement);
  if (diff) addCopyButton(diff);
  const [values] = findAll(card, ":scope > .cudalens-race-value", HTMLElement);
  if (values) addTabs(card, values);
  return card;
}

/**
 * Two tabs, the accesses and the values. Where a value is confirmed wrong, the tab of the values is open.
 *
 * @param {Element} card
 * @param {HTMLElement} values
 */
function addTabs(card, values) {
  const id = `cl-race-tab-${Math.random().toString(36).slice(2)}`;
  const parts = [...card.children].filter((node) => node !== values && !node.matches("h4, .cl-race-what"));
  const accesses = element("div", { class: "cl-race-panel" }, ...parts);
  const panels = [accesses, values];
  const tabs = ["Accesses", "Values"].map((text, k) =>
    element("button", { type: "button", role: "tab", id: `${id}-${k}`, "data-lm-suppress-shortcuts": "true" }, text),
  );
  const show = (/** @type {number} */ at) => {
    for (const [k, tab] of tabs.entries()) {
      tab.setAttribute("aria-selected", String(k === at));
      tab.tabIndex = k === at ? 0 : -1;
      panels[k].hidden = k !== at;
    }
  };
  for (const [k, panel] of panels.entries()) {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `${id}-${k}`);
    tabs[k].addEventListener("click", () => show(k));
    tabs[k].addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      event.stopPropagation();
      show(1 - k);
      tabs[1 - k].focus();
    });
  }
  card.append(
    element("div", { class: "cl-race-tabs", role: "tablist", "aria-label": "What is known of the race" }, ...tabs),
    accesses,
    values,
  );
  show(values.querySelector(".cl-value-confirmed") ? 1 : 0);
}

/**
 * A button that copies the diff, without the button's own text.
 *
 * @param {HTMLElement} diff
 */
function addCopyButton(diff) {
  const text = diff.textContent;
  const frame = element("div", { class: "cl-race-copy" });
  const copy = element("button", { type: "button", class: "cl-button", "data-lm-suppress-shortcuts": "true" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = (await copyText(text, diff)) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => {
      copy.textContent = "Copy";
    }, COPIED_MS);
  });
  diff.replaceWith(frame);
  frame.append(diff, copy);
}

/**
 * Pages without a secure context (a report from file:, a plain http server) may have no clipboard: then the text is
 * selected. Returns whether it was copied.
 *
 * @param {string} text
 * @param {HTMLElement} node
 */
async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(node);
    return document.execCommand("copy");
  }
}
