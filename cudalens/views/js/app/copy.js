// Buttons that copy a text, and save a picture.

import { element } from "../shared/dom.js";

const SHOWN_MS = 1500;

/**
 * A button that copies `text`. Pages without access to the clipboard show the text instead.
 *
 * @param {string} label
 * @param {string} title
 * @param {string | null} text Null where there is nothing to copy.
 * @param {string} [whyNone] Shown in place of `title` where there is nothing to copy.
 */
export function copyButton(label, title, text, whyNone = "") {
  const copy = async (/** @type {MouseEvent} */ event) => {
    event.stopPropagation(); // the row around it selects something
    if (text === null) return;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      setTimeout(() => {
        button.textContent = label;
      }, SHOWN_MS);
    } catch {
      button.replaceWith(element("code", { class: "cl-copy-text", tabindex: 0 }, text));
    }
  };
  const attributes = { class: "cl-button cl-copy", type: "button", title: text === null ? whyNone : title };
  const button = element("button", { ...attributes, disabled: text === null, "data-text": text }, label);
  button.addEventListener("click", copy);
  return button;
}

/**
 * A finding as Markdown: its cost and title, what was seen, and what to try.
 *
 * @param {HTMLElement} row Of the table of findings.
 */
export function findingMarkdown(row) {
  const textOf = (/** @type {string} */ name) =>
    (row.querySelector(`.cl-find-${name}`)?.textContent ?? "").replace(/\s+/g, " ").trim();
  const what = row.querySelector(".cl-find-what");
  const seen = [...(what?.querySelectorAll("p") ?? [])].map(({ textContent }) => textContent?.trim() ?? "");
  const whole = what?.textContent?.replace(/\s+/g, " ").trim() ?? "";
  const title = seen.reduce((text, part) => text.replace(part.replace(/\s+/g, " "), "").trim(), whole);
  return [`**${title}**: ${textOf("cost")}`, ...seen, `Try: ${textOf("try")}`].join("\n\n");
}
