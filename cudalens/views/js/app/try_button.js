// The buttons that try the fix of a finding, or of all findings: consent, progress, the answer and the diff.

import { element } from "../shared/dom.js";
import { copyButton } from "./copy.js";

/**
 * What a try gave, made by cudalens/magics/try_fix.py.
 *
 * @typedef {object} Tried
 * @property {string[]} [effects] Of a cell that did not run because consent is missing; then there is nothing else.
 * @property {string} headline The answer in one line.
 * @property {string} [title] What the fix of one finding does.
 * @property {string[][]} [rows] Of each finding: its rule, what the fix does, what it gave alone, whether it was kept.
 * @property {string[]} notes
 * @property {string} diff
 * @property {string} code The fixed cell; "" where nothing was run.
 */

/**
 * @typedef {object} Question
 * @property {number | null} finding From 1; null for all.
 * @property {boolean} consent To the effects of the cell.
 */

/** @typedef {(question: Question, onProgress: (text: string) => void) => Promise<Tried>} TryFindings */

const WAITING = "Waiting for the kernel.";
const COLUMNS = ["Finding", "Fix", "Alone", "Result"];

/**
 * Add the button to a row of the table of findings. The answer is in a row below it.
 *
 * @param {HTMLElement} row
 * @param {number} number Of the finding, from 1.
 * @param {TryFindings} tryFindings
 */
export function addTryButton(row, number, tryFindings) {
  const title = "Run the cell with and without the fix of this finding; nothing of the notebook is changed";
  const button = tryButton("Try it", title, number, () => answerBelow(row), tryFindings);
  row.lastElementChild?.append(" ", button);
}

/**
 * Add the button for all findings below their table, with a place for the answer.
 *
 * @param {HTMLElement} table
 * @param {TryFindings} tryFindings
 */
export function addTryAllButton(table, tryFindings) {
  const title = "Try the fix of each finding, and keep what helps; nothing of the notebook is changed";
  const answer = element("div", { class: "cl-tried cl-tried-all" });
  const button = tryButton("Try all", title, null, () => answer, tryFindings);
  table.after(element("p", { class: "cl-try-all" }, button), answer);
}

/**
 * A button that tries, and writes the progress and the answer into an element.
 *
 * @param {string} label
 * @param {string} title
 * @param {number | null} finding
 * @param {() => Element} findAnswer
 * @param {TryFindings} tryFindings
 */
function tryButton(label, title, finding, findAnswer, tryFindings) {
  const button = element("button", { class: "cl-button cl-copy cl-try", type: "button", title }, label);
  const run = async (/** @type {boolean} */ consent) => {
    const answer = findAnswer();
    button.disabled = true;
    const progress = element("p", { class: "cl-try-progress", role: "status" }, WAITING);
    answer.replaceChildren(progress);
    try {
      const tried = await tryFindings({ finding, consent }, (text) => {
        progress.textContent = text;
      });
      answer.replaceChildren(...(tried.effects ? consentParts(tried.effects, answer, run) : answerParts(tried)));
      if (!tried.effects) button.textContent = `${label === "Try all" ? label : "Try"} again`;
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error);
      answer.replaceChildren(element("p", { class: "cl-try-error", role: "alert" }, `Not tried: ${text}`));
    } finally {
      button.disabled = false;
    }
  };
  button.addEventListener("click", (event) => {
    event.stopPropagation(); // the row around it selects something
    void run(false);
  });
  button.addEventListener("keydown", (event) => event.stopPropagation());
  return button;
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

/**
 * The effects of a cell, and buttons to run it in spite of them, or not.
 *
 * @param {string[]} effects
 * @param {Element} answer
 * @param {(consent: boolean) => Promise<void>} run
 */
function consentParts(effects, answer, run) {
  const cancel = () => answer.replaceChildren();
  const buttons = [
    element(
      "button",
      { class: "cl-button cl-try-consent", type: "button", onclick: () => void run(true) },
      "Run the cell",
    ),
    " ",
    element("button", { class: "cl-button", type: "button", onclick: cancel }, "Cancel"),
  ];
  return [
    element("p", { role: "status" }, "A try runs the cell many times. It has effects that are not undone:"),
    list(effects),
    element("p", {}, ...buttons),
  ];
}

/** @param {Tried} tried */
function answerParts({ headline, title, rows, notes, diff, code }) {
  /** @type {HTMLElement[]} */
  const found = [element("p", { role: "status" }, element("strong", {}, headline))];
  if (title) found.push(element("p", {}, `Fix: ${title}`));
  if (notes.length) found.push(list(notes));
  if (rows?.length) found.push(resultTable(rows));
  if (diff) found.push(element("pre", { class: "cl-diff", tabindex: "0" }, ...diff.split("\n").map(diffLine)));
  if (code) found.push(copyButton("Copy the fixed cell", "Copy the text of the cell with the fix", code));
  return found;
}

/** @param {string[]} texts */
function list(texts) {
  return element("ul", {}, ...texts.map((text) => element("li", {}, text)));
}

/**
 * The table of what each fix gave. Its cells repeat the names of the columns for narrow pages.
 *
 * @param {string[][]} rows
 */
function resultTable(rows) {
  const head = element("tr", {}, ...COLUMNS.map((name) => element("th", { scope: "col" }, name)));
  const body = rows.map((row) => element("tr", {}, ...row.map((text, number) => resultCell(text, COLUMNS[number]))));
  return element("table", { class: "cl-try-results" }, element("thead", {}, head), element("tbody", {}, ...body));
}

/**
 * @param {string} text
 * @param {string} column
 */
function resultCell(text, column) {
  return element("td", { "data-label": text ? column : "" }, column === "Finding" ? element("code", {}, text) : text);
}

/** @param {string} line */
function diffLine(line) {
  const isHead = line.startsWith("+++") || line.startsWith("---");
  const kinds = /** @type {{ [mark: string]: string }} */ ({ "+": "cl-added", "-": "cl-removed" });
  const kind = isHead ? null : (kinds[line[0]] ?? null);
  return element("span", { class: kind }, `${line}\n`);
}
