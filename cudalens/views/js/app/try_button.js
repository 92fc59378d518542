// The button that tries the fix of a finding: progress, the answer and the diff in a row below the finding.

import { element } from "../shared/dom.js";
import { copyButton } from "./copy.js";

/**
 * What a try gave, made by cudalens/magics/try_fix.py.
 *
 * @typedef {object} Tried
 * @property {string} headline The answer in one line.
 * @property {string} title What the fix does.
 * @property {string[]} notes
 * @property {string} diff
 * @property {string} code The fixed cell; "" where nothing was run.
 */

/** @typedef {(number: number, onProgress: (text: string) => void) => Promise<Tried>} TryFinding */

const WAITING = "Waiting for the kernel.";

/**
 * Add the button to a row of the table of findings.
 *
 * @param {HTMLElement} row
 * @param {number} number Of the finding, from 1.
 * @param {TryFinding} tryFinding
 */
export function addTryButton(row, number, tryFinding) {
  const title = "Run the cell with and without the fix of this finding; nothing of the notebook is changed";
  const button = element("button", { class: "cl-button cl-copy cl-try", type: "button", title }, "Try it");
  const press = async () => {
    const answer = answerBelow(row);
    button.disabled = true;
    const progress = element("p", { class: "cl-try-progress", role: "status" }, WAITING);
    answer.replaceChildren(progress);
    try {
      const tried = await tryFinding(number, (text) => {
        progress.textContent = text;
      });
      answer.replaceChildren(...parts(tried));
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      answer.replaceChildren(element("p", { class: "cl-try-error", role: "alert" }, `Not tried: ${text}`));
    } finally {
      button.disabled = false;
      button.textContent = "Try again";
    }
  };
  button.addEventListener("click", (event) => {
    event.stopPropagation(); // the row around it selects something
    void press();
  });
  button.addEventListener("keydown", (event) => event.stopPropagation());
  row.lastElementChild?.append(" ", button);
}

/**
 * The cell below a row that takes the answer; the one of an earlier try if there is one.
 *
 * @param {HTMLElement} row
 */
function answerBelow(row) {
  const below = row.nextElementSibling;
  if (below?.classList.contains("cl-tried") && below.firstElementChild) return below.firstElementChild;
  const cell = element("td", { colspan: String(row.children.length), "data-label": "", "data-wide": "" });
  row.after(element("tr", { class: "cl-tried" }, cell));
  return cell;
}

/** @param {Tried} tried */
function parts({ headline, title, notes, diff, code }) {
  /** @type {HTMLElement[]} */
  const found = [element("p", { role: "status" }, element("strong", {}, headline))];
  if (title) found.push(element("p", {}, `Fix: ${title}`));
  if (notes.length) found.push(element("ul", {}, ...notes.map((note) => element("li", {}, note))));
  if (diff) found.push(element("pre", { class: "cl-diff", tabindex: "0" }, ...diff.split("\n").map(diffLine)));
  if (code) found.push(copyButton("Copy the fixed cell", "Copy the text of the cell with the fix", code));
  return found;
}

/** @param {string} line */
function diffLine(line) {
  const isHead = line.startsWith("+++") || line.startsWith("---");
  const kinds = /** @type {{ [mark: string]: string }} */ ({ "+": "cl-added", "-": "cl-removed" });
  const kind = isHead ? null : (kinds[line[0]] ?? null);
  return element("span", { class: kind }, `${line}\n`);
}
