// The graph tree: rows as cudalens/views/graphs/tree.py wrote them, with arrow keys, opening all at once, and paths that show
// themselves in the tree.

import { buildMarkup } from "../shared/markup.js";
import { uiElement } from "../shared/dom.js";

/**
 * Builds the graphs in `host`.
 *
 * @param {HTMLElement} host Empty element.
 * @param {object} model {body: trees of elements, paths: [[number of a recording, …], …]}.
 * @returns {object} trace(k) to show path k in the tree (null for none), setTheme, destroy.
 */
export function createGraphs(host, model) {
  const state = { model, host, traced: null, paths: [] };
  host.replaceChildren(...model.body.map(buildMarkup));
  const tree = host.querySelector(".cg-scroll");
  if (tree) {
    if (tree.querySelectorAll(".cg-stop, .cg-fold").length > 1) tree.before(graphTools(state, tree));
    tree.addEventListener("keydown", (event) => moveInGraph(event, tree));
  }
  startGraphPaths(state);
  return {
    trace: (k) => tracePath(state, k),
    setTheme() {},
    destroy: () => host.replaceChildren(),
  };
}

function graphTools(state, tree) {
  const openFolds = (isOpen) => {
    for (const fold of tree.querySelectorAll("details.cg-fold")) fold.open = isOpen;
  };
  const openRows = (isOpen) => {
    for (const row of tree.querySelectorAll("details.cg-row")) row.open = isOpen;
  };
  const button = (text, onclick) => uiElement("button", { type: "button", class: "cl-button", onclick }, text);
  const tools = uiElement("div", { class: "cg-tools", role: "group", "aria-label": "Graph tree" });
  if (tree.querySelector("details.cg-fold")) tools.append(button("Unfold all", () => openFolds(true)));
  tools.append(button("Open all", () => openRows(true)), button("Close all", () => {
    openRows(false);
    openFolds(false);
  }));
  if (tree.querySelector(".cg-stop.is-current")) tools.append(button("Go to current", () => goToCurrent(tree)));
  return tools;
}

function goToCurrent(tree) {
  const row = tree.querySelector(".cg-stop.is-current > .cg-row > summary");
  revealInGraph(row);
  row.focus({ preventScroll: true });
  scrollGraphTo(tree, row);
}

// Opens every fold that stands around `node`.
function revealInGraph(node) {
  for (let fold = node.closest("details.cg-fold"); fold; fold = fold.parentElement.closest("details.cg-fold")) fold.open = true;
}

// Scrolls the tree alone; scrollIntoView would move the page as well.
function scrollGraphTo(tree, node) {
  const top = node.getBoundingClientRect().top - tree.getBoundingClientRect().top;
  if (top < 0 || top + node.offsetHeight > tree.clientHeight) tree.scrollTop += top - tree.clientHeight / 3;
}

// Up and down go from row to row, right opens, left closes; Home and End go to the ends.
function moveInGraph(event, tree) {
  const at = event.target;
  if (at.tagName !== "SUMMARY" || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...tree.querySelectorAll("summary")].filter((row) => row.getClientRects().length);
  const k = rows.indexOf(at);
  const steps = { ArrowDown: k + 1, ArrowUp: k - 1, Home: 0, End: rows.length - 1 };
  if (event.key in steps) {
    const next = rows[Math.min(Math.max(steps[event.key], 0), rows.length - 1)];
    next.focus({ preventScroll: true });
    scrollGraphTo(tree, next);
  } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") at.parentElement.open = event.key === "ArrowRight";
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// The paths become buttons, each of which marks its recordings in the tree.
function startGraphPaths(state) {
  const items = [...state.host.querySelectorAll(".cg-paths > li")].slice(0, state.model.paths.length);
  state.paths = items.map((item, k) => {
    const press = () => tracePath(state, state.traced === k ? null : k);
    const attributes = { type: "button", "aria-pressed": "false", title: "Show this path in the tree", onclick: press };
    const button = uiElement("button", attributes, ...item.childNodes);
    item.replaceChildren(button);
    return button;
  });
}

function tracePath(state, k) {
  state.traced = k;
  for (const [j, button] of state.paths.entries()) button.setAttribute("aria-pressed", String(j === k));
  for (const stop of state.host.querySelectorAll(".is-traced")) stop.classList.remove("is-traced");
  const stops = (state.model.paths[k] ?? []).map((node) => state.host.querySelector(`.cg-n${Number(node)}`)).filter(Boolean);
  for (const stop of stops) {
    stop.classList.add("is-traced");
    revealInGraph(stop);
  }
  if (stops.length) scrollGraphTo(state.host.querySelector(".cg-scroll"), stops[0]);
}
