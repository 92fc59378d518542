// The elements around the canvas: search, buttons, legend, tooltip, the text that screen readers get. Styles are set
// through the style sheet object, so that a page that forbids inline markup still shows them.

import { uiElement } from "../shared/dom.js";

const TL_STYLE = `
.cltl { --tl-bg: #fff; --tl-text: #1b1f24; position: relative; color: var(--tl-text); background: var(--tl-bg);
  font: 12px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; text-align: left; }
.cltl * { box-sizing: border-box; }
.cltl-tools { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; padding: 0 0 6px; }
.cltl-tools button, .cltl-search { font: inherit; color: inherit; background: var(--tl-field);
  border: 1px solid var(--tl-line); border-radius: 6px; height: 26px; }
.cltl-tools button { padding: 0 9px; cursor: pointer; }
.cltl-tools button:hover { background: var(--tl-soft); }
.cltl-search { padding: 0 8px; width: 190px; }
.cltl-group { display: inline-flex; gap: 4px; align-items: center; }
.cltl-matches { color: var(--tl-muted); min-width: 4em; font-variant-numeric: tabular-nums; }
.cltl-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; margin: 0 0 0 auto; padding: 0; list-style: none; color: var(--tl-muted); }
.cltl-legend li { display: inline-flex; align-items: center; gap: 5px; margin: 0; }
.cltl-legend i { width: 11px; height: 11px; border-radius: 2px; }
.cltl-frame { position: relative; overflow: hidden auto; border: 1px solid var(--tl-line); border-radius: 8px;
  resize: vertical; background: var(--tl-bg); overscroll-behavior-x: contain; scrollbar-width: thin; }
.cltl-stage { position: relative; }
.cltl-canvas { position: sticky; top: 0; left: 0; display: block; touch-action: pan-y; cursor: default; outline: none; }
.cltl-frame:has(.cltl-canvas:focus-visible) { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.cltl :is(button, input):focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.cltl-tip { position: absolute; z-index: 5; max-width: min(440px, 90%); padding: 6px 9px; border-radius: 6px; pointer-events: none;
  background: var(--tl-tip); color: var(--tl-tip-text); box-shadow: 0 2px 8px #0005; overflow-wrap: anywhere; }
.cltl-tip b { display: block; font-weight: 600; }
.cltl-tip[hidden] { display: none; }
.cltl-hint { color: var(--tl-muted); padding: 4px 2px 0; font-size: 11.5px; }
.cltl-hint span { white-space: nowrap; margin-right: 8px; }
.cltl-hint kbd { font: inherit; border: 1px solid var(--tl-line); border-radius: 4px; padding: 0 4px; }
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

function adoptTimelineStyle(root) {
  const scope = root.getRootNode();
  const key = Symbol.for("cudalens.timeline.style");
  const target = scope instanceof ShadowRoot ? scope : document;
  if (target[key]) return;
  target[key] = new CSSStyleSheet();
  target[key].replaceSync(TL_STYLE);
  target.adoptedStyleSheets = [...target.adoptedStyleSheets, target[key]];
}

const TL_HELP =
  "W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to "
  + "event, Enter selects, L follows a launch arrow. F fits, slash searches, C folds a lane, Escape goes back.";

const TL_KEYS = [["wheel", "zoom, after a click"], ["Ctrl+wheel", "zoom"], ["drag", "pan"], ["Shift+drag", "select time"],
  ["W A S D", "move"], ["F", "fit"], ["/", "search"], ["Enter", "step through events"]];

export function buildTimelineDom(root) {
  adoptTimelineStyle(root);
  const button = (label, text, tip) => uiElement("button", { type: "button", "aria-label": label, title: tip ?? label }, text);
  const dom = {
    search: uiElement("input", { class: "cltl-search", type: "search", placeholder: "Search names  ( / )", "aria-label": "Search event names",
      autocomplete: "off", spellcheck: "false" }),
    matches: uiElement("span", { class: "cltl-matches", role: "status" }),
    previous: button("Previous match", "‹", "Previous match (Shift+Enter)"),
    next: button("Next match", "›", "Next match (Enter)"),
    zoomIn: button("Zoom in", "+", "Zoom in (W)"),
    zoomOut: button("Zoom out", "−", "Zoom out (S)"),
    fit: button("Fit the whole trace", "Fit", "Show the whole trace (F)"),
    legend: uiElement("ul", { class: "cltl-legend", "aria-label": "Colours" }),
    canvas: uiElement("canvas", { class: "cltl-canvas", tabindex: "0", role: "application", "aria-roledescription": "timeline",
      "aria-label": "Timeline of the trace" }),
    stage: uiElement("div", { class: "cltl-stage" }),
    tip: uiElement("div", { class: "cltl-tip", hidden: true, "aria-hidden": "true" }),
    spoken: uiElement("div", { class: "cltl-spoken", "aria-live": "polite" }),
    help: uiElement("div", { class: "cltl-spoken", id: `cltl-${Math.random().toString(36).slice(2)}` }, TL_HELP),
  };
  dom.canvas.setAttribute("aria-describedby", dom.help.id);
  dom.frame = uiElement("div", { class: "cltl-frame" }, dom.stage);
  dom.stage.append(dom.canvas);
  const group = (...children) => uiElement("span", { class: "cltl-group" }, ...children);
  dom.tools = uiElement("div", { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(dom.search, dom.previous, dom.next, dom.matches), group(dom.zoomOut, dom.zoomIn, dom.fit), dom.legend);
  const hint = uiElement("div", { class: "cltl-hint", "aria-hidden": "true" });
  for (const [key, what] of TL_KEYS) hint.append(uiElement("span", {}, uiElement("kbd", {}, key), ` ${what}`), " ");
  // JupyterLab must not take our keys for its own: A would insert a cell, X cut one. It looks at the focused element first.
  for (const node of Object.values(dom)) {
    if (/^(canvas|input|button)$/i.test(node.tagName)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  dom.host = uiElement("div", { class: "cltl", role: "group", "aria-label": "Stream timeline" },
    dom.tools, dom.frame, hint, dom.tip, dom.spoken, dom.help);
  root.append(dom.host);
  return dom;
}

export function styleTimelineDom(dom, colors) {
  const { style } = dom.host;
  const names = { bg: "bg", text: "text", muted: "muted", line: "line", soft: "lineSoft", accent: "accent", tip: "tip", field: "field" };
  for (const [name, key] of Object.entries(names)) style.setProperty(`--tl-${name}`, colors[key]);
  style.setProperty("--tl-tip-text", colors.tipText);
  style.setProperty("color-scheme", colors.bg < "#8" ? "dark" : "light");
}

export function fillLegend(dom, entries) {
  dom.legend.replaceChildren(...entries.map(([label, color]) => {
    const swatch = uiElement("i", { "aria-hidden": "true" });
    swatch.style.background = color;
    return uiElement("li", {}, swatch, label);
  }));
}

// Shows `lines` beside (x, y) of the host; the first line is the name.
export function showTip(dom, lines, x, y) {
  const [name, ...rest] = lines;
  dom.tip.replaceChildren(uiElement("b", {}, name), ...rest.map((line) => uiElement("div", {}, line)));
  dom.tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = dom.tip;
  const room = dom.host.clientWidth;
  dom.tip.style.left = `${Math.max(0, x + 14 + width > room ? x - width - 10 : x + 14)}px`;
  dom.tip.style.top = `${y + 18 + height > dom.host.clientHeight ? y - height - 8 : y + 18}px`;
}
