// The elements around the canvas: search, buttons, legend, tooltip, and the text that screen readers read.

import { element } from "../shared/dom.js";
import { adoptStyle } from "./style.js";

const HELP_TEXT =
  "W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to " +
  "event, Enter selects, and Enter again goes to the launch or the kernel. F zooms to the selection, 0 shows the whole run, " +
  "B goes back to the window before, slash searches, C folds a lane, P pins it, Escape goes back, question mark lists all keys.";

const KEY_HINTS = [
  ["wheel", "zoom, after a click"],
  ["Ctrl+wheel", "zoom"],
  ["drag", "pan"],
  ["Shift+drag", "select time"],
  ["W A S D", "move"],
  ["← →", "next event"],
  ["Enter", "launch or kernel"],
  ["F", "zoom to selection"],
  ["0", "whole run"],
  ["B", "back"],
  ["/", "search"],
  ["?", "all keys"],
];

const KEYS = [
  ["click", "details of an event; arrow keys then go to its neighbours"],
  ["double-click, F or Z", "zoom to the event or the selected time; without one, show the whole run"],
  ["0", "show the whole run"],
  ["B or Backspace", "back to the window before the last move (with Shift: forward)"],
  ["← →", "next event of the lane, or move the window"],
  ["↑ ↓", "the caller or a call within, or the next lane"],
  ["Enter", "select an event; on a selected one, go to its launch or its kernel"],
  ["L", "go to the launch or the kernel"],
  ["W S, + −", "zoom in and out at the pointer"],
  ["A D", "move left and right"],
  ["Ctrl+wheel", "zoom at any time; after a click the wheel alone does"],
  ["drag", "move; on the ruler or with Shift, select time"],
  ["Shift+click", "select the time between two events"],
  ["/ then N", "search names, next match (Shift+N: previous)"],
  ["C, P", "fold a lane, pin it on top"],
  ["Home, End", "beginning and end of the run"],
  ["Escape", "clear the search, then the selection"],
];

/** @typedef {ReturnType<typeof buildDom>} TimelineDom */

/** @param {HTMLElement} root */
export function buildDom(root) {
  adoptStyle(root);
  const controls = buildControls();
  const canvas = element("canvas", {
    class: "cltl-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
    "aria-label": "Timeline of the trace",
  });
  const stage = element("div", { class: "cltl-stage" }, canvas);
  const frame = element("div", { class: "cltl-frame" }, stage);
  const tip = element("div", { class: "cltl-tip", hidden: true, "aria-hidden": "true" });
  const spoken = element("div", { class: "cltl-spoken", "aria-live": "polite" });
  const help = element("div", { class: "cltl-spoken", id: `cltl-${Math.random().toString(36).slice(2)}` }, HELP_TEXT);
  canvas.setAttribute("aria-describedby", help.id);
  const lanes = element("div", { class: "cltl-lanes", hidden: true });
  const keys = element(
    "dl",
    { class: "cltl-keys", hidden: true, "aria-label": "Keys" },
    ...KEYS.flatMap(([key, what]) => [element("dt", {}, key), element("dd", {}, what)]),
  );
  const attributes = { class: "cltl", role: "group", "aria-label": "Stream timeline" };
  const host = element("div", attributes, controls.tools, lanes, keys, frame, keyHints(), tip, spoken, help);
  // Without this, JupyterLab takes our keys: A would insert a cell, X cut one. It looks at the focused element first.
  for (const node of host.querySelectorAll("canvas, input, button")) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  root.append(host);
  return { ...controls, canvas, stage, frame, lanes, keys, tip, spoken, host };
}

function buildControls() {
  const button = (/** @type {string} */ label, /** @type {string} */ text, /** @type {string} */ title) =>
    element("button", { type: "button", "aria-label": label, title }, text);
  const group = (/** @type {HTMLElement[]} */ ...children) => element("span", { class: "cltl-group" }, ...children);
  const search = element("input", {
    class: "cltl-search",
    type: "search",
    placeholder: "Search names  ( / )",
    "aria-label": "Search event names",
    autocomplete: "off",
    spellcheck: "false",
  });
  const matches = element("span", { class: "cltl-matches", role: "status" });
  const previous = button("Previous match", "‹", "Previous match (Shift+Enter)");
  const next = button("Next match", "›", "Next match (Enter)");
  const zoomIn = button("Zoom in", "+", "Zoom in (W)");
  const zoomOut = button("Zoom out", "−", "Zoom out (S)");
  const fit = button("Fit the whole trace", "Fit", "Show the whole trace (0)");
  const lanesButton = button("Lanes", "Lanes", "Pin, move, fold and filter lanes");
  lanesButton.setAttribute("aria-expanded", "false");
  const keysButton = button("All keys", "?", "List the keys (?)");
  const picture = button("PNG picture of the lanes", "PNG", "Save the lanes as they show, as PNG");
  const legend = element("ul", { class: "cltl-legend", "aria-label": "Colours" });
  const tools = element(
    "div",
    { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(search, previous, next, matches),
    group(zoomOut, zoomIn, fit, lanesButton, picture, keysButton),
    legend,
  );
  return { search, matches, previous, next, zoomIn, zoomOut, fit, lanesButton, picture, keysButton, legend, tools };
}

/** @param {TimelineDom} dom */
export function toggleKeys({ keys }) {
  keys.hidden = !keys.hidden;
}

function keyHints() {
  const hints = KEY_HINTS.flatMap(([key, what]) => [element("span", {}, element("kbd", {}, key), ` ${what}`), " "]);
  return element("div", { class: "cltl-hint", "aria-hidden": "true" }, ...hints);
}

/**
 * @param {TimelineDom} dom
 * @param {[label: string, color: string][]} entries
 */
export function fillLegend(dom, entries) {
  dom.legend.replaceChildren(
    ...entries.map(([label, color]) => {
      const swatch = element("i", { "aria-hidden": "true" });
      swatch.style.background = color;
      return element("li", {}, swatch, label);
    }),
  );
}

/**
 * Shows `lines` beside (x, y) of the host; the first line is the name.
 *
 * @param {TimelineDom} dom
 * @param {string[]} lines
 * @param {number} x
 * @param {number} y
 */
export function showTip(dom, lines, x, y) {
  const [name, ...rest] = lines;
  dom.tip.replaceChildren(element("b", {}, name), ...rest.map((line) => element("div", {}, line)));
  dom.tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = dom.tip;
  const room = dom.host.clientWidth;
  dom.tip.style.left = `${Math.max(0, x + 14 + width > room ? x - width - 10 : x + 14)}px`;
  dom.tip.style.top = `${y + 18 + height > dom.host.clientHeight ? y - height - 8 : y + 18}px`;
}
