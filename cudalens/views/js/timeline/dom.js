// The elements around the canvas: search, buttons, legend, tooltip, and the text that screen readers read.

import { element } from "../shared/dom.js";
import { adoptStyle } from "./style.js";

const HELP_TEXT =
  "W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to " +
  "event, Enter selects, L follows a launch arrow. F fits, slash searches, C folds a lane, P pins it, Escape goes back.";

const KEY_HINTS = [
  ["wheel", "zoom, after a click"],
  ["Ctrl+wheel", "zoom"],
  ["drag", "pan"],
  ["Shift+drag", "select time"],
  ["W A S D", "move"],
  ["F", "fit"],
  ["/", "search"],
  ["Enter", "step through events"],
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
  const attributes = { class: "cltl", role: "group", "aria-label": "Stream timeline" };
  const host = element("div", attributes, controls.tools, lanes, frame, keyHints(), tip, spoken, help);
  // Without this, JupyterLab takes our keys: A would insert a cell, X cut one. It looks at the focused element first.
  for (const node of host.querySelectorAll("canvas, input, button")) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  root.append(host);
  return { ...controls, canvas, stage, frame, lanes, tip, spoken, host };
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
  const fit = button("Fit the whole trace", "Fit", "Show the whole trace (F)");
  const lanesButton = button("Lanes", "Lanes", "Pin, move, fold and filter lanes");
  lanesButton.setAttribute("aria-expanded", "false");
  const legend = element("ul", { class: "cltl-legend", "aria-label": "Colours" });
  const tools = element(
    "div",
    { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(search, previous, next, matches),
    group(zoomOut, zoomIn, fit, lanesButton),
    legend,
  );
  return { search, matches, previous, next, zoomIn, zoomOut, fit, lanesButton, legend, tools };
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
