// Rows of a table that are a tree: a button before the name folds the rows below it.

import { element, findAll } from "./dom.js";

// Deeper rows are folded at first.
const OPEN_DEPTH = 2;
const INDENT_PX = 18;
const BUTTON_PX = 18;

/**
 * @param {HTMLElement} host Its rows have their depth in `data-depth`; others are left alone.
 */
export function makeTree(host) {
  const rows = findAll(host, "tr[data-depth]", HTMLTableRowElement);
  const depths = rows.map((row) => Number(row.dataset.depth));
  const hasRows = depths.map((depth, k) => k + 1 < depths.length && depths[k + 1] > depth);
  const isOpen = depths.map((depth) => depth < OPEN_DEPTH);
  rows.forEach((row, k) => {
    const name = row.cells[0].querySelector(".cl-place");
    // The indentation takes the place of the marks that show it where there is no script.
    if (name) name.textContent = name.textContent?.replace(/^[\u203a ]+/, "") ?? "";
    row.cells[0].style.paddingInlineStart = `${INDENT_PX * depths[k] + (hasRows[k] ? 0 : BUTTON_PX) + 10}px`;
  });
  /** @type {(HTMLButtonElement | null)[]} */
  const buttons = rows.map((row, k) => {
    if (!hasRows[k]) return null;
    const press = () => {
      isOpen[k] = !isOpen[k];
      update();
    };
    const name = row.cells[0].textContent;
    const button = element("button", { type: "button", class: "cl-fold", "aria-label": `Modules in ${name}` });
    button.addEventListener("click", (event) => {
      event.stopPropagation();
      press();
    });
    row.cells[0].prepend(button);
    return button;
  });
  const update = () => {
    // Rows deeper than the first folded row above them do not show.
    let limit = Infinity;
    rows.forEach((row, k) => {
      if (depths[k] <= limit) limit = Infinity;
      row.hidden = depths[k] > limit;
      buttons[k]?.setAttribute("aria-expanded", String(isOpen[k]));
      if (buttons[k]) buttons[k].textContent = isOpen[k] ? "▾" : "▸";
      if (!row.hidden && hasRows[k] && !isOpen[k]) limit = depths[k];
    });
  };
  update();
}
