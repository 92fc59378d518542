// The style sheet of the timeline. It is set through the style sheet object, so that a page that forbids inline markup
// still shows it.

/** @import { ThemeColors } from "../shared/theme.js" */

const STYLE = `
.cltl { --timeline-bg: #fff; --timeline-text: #1b1f24; position: relative; color: var(--timeline-text); background: var(--timeline-bg);
  font: 12px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; text-align: left; }
.cltl * { box-sizing: border-box; }
.cltl-tools { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; padding: 0 0 6px; }
.cltl-tools button, .cltl-search { font: inherit; color: inherit; background: var(--timeline-field);
  border: 1px solid var(--timeline-line); border-radius: 6px; height: 26px; }
.cltl-tools button { padding: 0 9px; cursor: pointer; }
.cltl-tools button:hover { background: var(--timeline-soft); }
.cltl-search { padding: 0 8px; width: 190px; }
.cltl-group { display: inline-flex; gap: 4px; align-items: center; }
.cltl-matches { color: var(--timeline-muted); min-width: 4em; font-variant-numeric: tabular-nums; }
.cltl-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; margin: 0 0 0 auto; padding: 0; list-style: none; color: var(--timeline-muted); }
.cltl-legend li { display: inline-flex; align-items: center; gap: 5px; margin: 0; }
.cltl-legend i { width: 11px; height: 11px; border-radius: 2px; }
.cltl button[aria-pressed=true] { background: var(--timeline-accent); color: var(--timeline-bg); border-color: transparent; }
.cltl-lanes { border: 1px solid var(--timeline-line); border-radius: 8px; margin: 0 0 6px; max-height: 220px; overflow: auto; scrollbar-width: thin; }
.cltl-lanes ul { list-style: none; margin: 0; padding: 4px; }
.cltl-lanes li { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; margin: 0; padding: 2px 4px; }
.cltl-lanes :is(button, input) { font: inherit; color: inherit; background: var(--timeline-field); border: 1px solid var(--timeline-line);
  border-radius: 6px; height: 24px; padding: 0 7px; }
.cltl-lanes button:disabled { opacity: .4; }
.cltl-lane { flex: 1 1 140px; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding: 0 6px; }
.cltl-lanes input { width: 160px; }
.cltl-frame { position: relative; overflow: hidden auto; border: 1px solid var(--timeline-line); border-radius: 8px;
  resize: vertical; background: var(--timeline-bg); overscroll-behavior-x: contain; scrollbar-width: thin; }
.cltl-stage { position: relative; }
.cltl-canvas { position: sticky; top: 0; left: 0; display: block; touch-action: pan-y; cursor: default; outline: none; }
.cltl-frame:has(.cltl-canvas:focus-visible) { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl :is(button, input):focus-visible { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl-tip { position: absolute; z-index: 5; max-width: min(440px, 90%); padding: 6px 9px; border-radius: 6px; pointer-events: none;
  background: var(--timeline-tip); color: var(--timeline-tip-text); box-shadow: 0 2px 8px #0005; overflow-wrap: anywhere; }
.cltl-tip b { display: block; font-weight: 600; }
.cltl-tip[hidden] { display: none; }
.cltl-hint { color: var(--timeline-muted); padding: 4px 2px 0; font-size: 11.5px; }
.cltl-hint span { white-space: nowrap; margin-right: 8px; }
.cltl-hint kbd { font: inherit; border: 1px solid var(--timeline-line); border-radius: 4px; padding: 0 4px; }
.cltl dl.cltl-keys { position: absolute; top: 34px; left: 0; right: 0; z-index: 7; display: grid; grid-template-columns: max-content 1fr;
  gap: 2px 12px; margin: 0; padding: 8px 12px; border: 1px solid var(--timeline-line); border-radius: 8px; background: var(--timeline-field);
  box-shadow: 0 4px 14px #0004; }
.cltl dl.cltl-keys[hidden] { display: none; }
.cltl-keys dt { font-weight: 600; }
.cltl-keys dd { margin: 0; }
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;

const SHEET_KEY = Symbol.for("cudalens.timeline.style");

/**
 * Adds the style sheet to the document or shadow root of `root`, once.
 *
 * @param {HTMLElement} root
 */
export function adoptStyle(root) {
  const scope = root.getRootNode();
  const target = /** @type {DocumentOrShadowRoot & { [SHEET_KEY]?: CSSStyleSheet }} */ (
    scope instanceof ShadowRoot ? scope : document
  );
  if (target[SHEET_KEY]) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  target[SHEET_KEY] = sheet;
  target.adoptedStyleSheets = [...target.adoptedStyleSheets, sheet];
}

/**
 * Sets the colours of a theme on `node`.
 *
 * @param {HTMLElement} node
 * @param {ThemeColors} colors
 */
export function setColors({ style }, colors) {
  const { bg, text, muted, line, lineSoft: soft, accent, tip, field } = colors;
  for (const [name, color] of Object.entries({ bg, text, muted, line, soft, accent, tip, field })) {
    style.setProperty(`--timeline-${name}`, color);
  }
  style.setProperty("--timeline-tip-text", colors.tipText);
  style.setProperty("color-scheme", bg < "#8" ? "dark" : "light");
}
