// The graph tree: the rows that cudalens/views/graphs/section.py makes, with arrow keys, buttons that open all rows, and
// paths that are shown in the tree.

import { element, findAll } from "../shared/dom.js";
import { buildElement } from "../shared/markup.js";

/** @import { MarkupElement } from "../shared/markup.js" */

/**
 * @typedef {{ body: MarkupElement[], paths: number[][] }} GraphsModel Trees of elements; the recordings of each path.
 */

const FOLDS = "details.cg-fold";
const ROWS = "details.cg-row";

/**
 * @typedef {object} GraphsView
 * @property {(k: number | null) => void} trace Shows a path in the tree.
 * @property {() => void} setTheme
 * @property {() => void} destroy
 */

/**
 * @typedef {object} State
 * @property {GraphsModel} model
 * @property {HTMLElement} host
 * @property {number | null} traced Number of the path that is shown.
 * @property {HTMLButtonElement[]} paths
 */

/**
 * Builds the graphs in `host`.
 *
 * @param {HTMLElement} host Empty element.
 * @param {GraphsModel} model
 * @returns {GraphsView}
 */
export function createGraphs(host, model) {
  /** @type {State} */
  const state = { model, host, traced: null, paths: [] };
  host.replaceChildren(...model.body.map(buildElement));
  const [tree] = findAll(host, ".cg-frame", HTMLElement);
  if (tree) {
    if (tree.querySelectorAll(".cg-stop, .cg-fold").length > 1) tree.before(treeTools(tree));
    tree.addEventListener("keydown", (event) => onTreeKey(event, tree));
  }
  startPaths(state);
  return {
    trace: (k) => tracePath(state, k),
    setTheme() {},
    destroy: () => host.replaceChildren(),
  };
}

/** @param {HTMLElement} tree */
function treeTools(tree) {
  const open = (/** @type {string} */ selector, /** @type {boolean} */ isOpen) => {
    for (const node of findAll(tree, selector, HTMLDetailsElement)) node.open = isOpen;
  };
  const button = (/** @type {string} */ text, /** @type {() => void} */ onclick) =>
    element("button", { type: "button", class: "cl-button", onclick }, text);
  const tools = element("div", { class: "cg-tools", role: "group", "aria-label": "Graph tree" });
  if (tree.querySelector(FOLDS)) tools.append(button("Unfold all", () => open(FOLDS, true)));
  tools.append(
    button("Open all", () => open(ROWS, true)),
    button("Close all", () => {
      open(ROWS, false);
      open(FOLDS, false);
    }),
  );
  if (tree.querySelector(".cg-stop.is-current")) tools.append(button("Go to current", () => goToCurrent(tree)));
  return tools;
}

/** @param {HTMLElement} tree */
function goToCurrent(tree) {
  const [row] = findAll(tree, ".cg-stop.is-current > .cg-row > summary", HTMLElement);
  if (!row) return;
  openAround(row);
  row.focus({ preventScroll: true });
  scrollTreeTo(tree, row);
}

/**
 * Opens every fold around `node`.
 *
 * @param {HTMLElement} node
 */
function openAround(node) {
  for (let at = /** @type {HTMLElement | null} */ (node); at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement && at.matches(FOLDS)) at.open = true;
  }
}

/**
 * Scrolls the tree alone; scrollIntoView would move the page as well.
 *
 * @param {HTMLElement} tree
 * @param {HTMLElement} node
 */
function scrollTreeTo(tree, node) {
  const top = node.getBoundingClientRect().top - tree.getBoundingClientRect().top;
  if (top < 0 || top + node.offsetHeight > tree.clientHeight) tree.scrollTop += top - tree.clientHeight / 3;
}

/**
 * Up and down go from row to row, right opens, left closes; Home and End go to the ends.
 *
 * @param {KeyboardEvent} event
 * @param {HTMLElement} tree
 */
function onTreeKey(event, tree) {
  const at = event.target;
  if (!(at instanceof HTMLElement) || at.tagName !== "SUMMARY") return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = findAll(tree, "summary", HTMLElement).filter((row) => row.getClientRects().length);
  const k = rows.indexOf(at);
  /** @type {{ [key: string]: number }} */
  const steps = { ArrowDown: k + 1, ArrowUp: k - 1, Home: 0, End: rows.length - 1 };
  const isOpening = event.key === "ArrowRight";
  if (event.key in steps) {
    const next = rows[Math.min(Math.max(steps[event.key], 0), rows.length - 1)];
    next.focus({ preventScroll: true });
    scrollTreeTo(tree, next);
  } else if (isOpening || event.key === "ArrowLeft") at.parentElement?.toggleAttribute("open", isOpening);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/**
 * The paths become buttons, each of which marks its recordings in the tree.
 *
 * @param {State} state
 */
function startPaths(state) {
  const items = [...state.host.querySelectorAll(".cudalens-graph-paths li")].slice(0, state.model.paths.length);
  state.paths = items.map((item, k) => {
    const press = () => tracePath(state, state.traced === k ? null : k);
    const attributes = { type: "button", "aria-pressed": "false", title: "Show this path in the tree", onclick: press };
    const button = element("button", attributes);
    button.append(...item.childNodes);
    item.replaceChildren(button);
    return button;
  });
}

/**
 * @param {State} state
 * @param {number | null} k
 */
function tracePath(state, k) {
  const { host, model, paths } = state;
  state.traced = k;
  for (const [j, button] of paths.entries()) button.setAttribute("aria-pressed", String(j === k));
  for (const stop of host.querySelectorAll(".is-traced")) stop.classList.remove("is-traced");
  const nodes = k === null ? [] : (model.paths[k] ?? []);
  const stops = nodes.flatMap((node) => findAll(host, `.cg-n${Number(node)}`, HTMLElement).slice(0, 1));
  for (const stop of stops) {
    stop.classList.add("is-traced");
    openAround(stop);
  }
  const [tree] = findAll(host, ".cg-frame", HTMLElement);
  if (stops.length) scrollTreeTo(tree, stops[0]);
}
