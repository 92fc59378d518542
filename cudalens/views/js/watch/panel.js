// The live panel: what Python has written about the run, the buttons, and the timeline of the last recording. The
// timeline is drawn and zoomed in the page, so it does not depend on a kernel that runs a cell.

import { decodePayload } from "../payload/payload.js";
import { element, findAll } from "../shared/dom.js";
import { buildElement } from "../shared/markup.js";
import { uniqueId } from "../shared/model.js";
import { pageTheme, watchPageTheme } from "../shared/page_theme.js";
import { hidePictures } from "../shared/static_pictures.js";
import { createTimeline } from "../timeline/timeline.js";

/** @import { MarkupElement } from "../shared/markup.js" */
/** @import { WidgetModel } from "../shared/model.js" */
/** @import { TimelineView } from "../timeline/timeline.js" */

/**
 * The state of WatchPanel in cudalens/watching/panel.py.
 *
 * @typedef {object} PanelState
 * @property {{ tree?: MarkupElement, number?: number }} _panel
 * @property {string} _ended Why the panel no longer changes; empty while it is live.
 * @property {string} _picture
 * @property {string} _hint
 */

/** @typedef {WidgetModel<PanelState & { [name: string]: unknown }>} PanelModel */
/** @typedef {{ kind: string, step?: number, text?: string }} Message */

/**
 * Builds the panel in `host`.
 *
 * @param {HTMLElement} host
 * @param {PanelModel} model
 * @returns {() => void} Removes it.
 */
export function createPanel(host, model) {
  const parts = buildParts(model);
  host.replaceChildren(parts.root);
  const timeline = createRecordingView(parts);
  const paint = () => {
    hidePictures(model.get("_picture"), true);
    showTree(parts.content, model.get("_panel"));
    parts.root.dataset.updates = String(model.get("_panel").number ?? 0);
  };
  const describe = () => {
    const ended = model.get("_ended");
    parts.root.dataset.state = ended ? "ended" : "live";
    for (const button of parts.buttons) button.hidden = Boolean(ended);
    parts.note.textContent = ended || model.get("_hint");
  };
  const receive = (/** @type {Message} */ message, /** @type {DataView<ArrayBuffer>[]} */ buffers) => {
    if (message?.kind === "timeline") timeline.show(message.step ?? 0, buffers[0]);
    else if (message?.kind === "note") parts.note.textContent = message.text ?? "";
  };
  /** @type {[string, (message: any, buffers: any) => void][]} */
  const listeners = [
    ["msg:custom", receive],
    ["change:_panel", paint],
    ["change:_ended", describe],
  ];
  for (const [name, listener] of listeners) model.on(name, listener);
  paint();
  describe();
  send(model, "timeline");
  return () => {
    for (const [name, listener] of listeners) model.off(name, listener);
    timeline.destroy();
    hidePictures(model.get("_picture"), false);
  };
}

/**
 * @param {PanelModel} model
 * @param {string} kind
 */
function send(model, kind) {
  try {
    model.send({ kind, view: uniqueId() });
  } catch {
    // The kernel is gone, so there is no receiver.
  }
}

/** @param {PanelModel} model */
function buildParts(model) {
  const note = element("span", { class: "cl-watch-hint" });
  const act = (/** @type {string} */ kind, /** @type {string} */ text) => () => {
    note.textContent = text;
    send(model, kind);
  };
  const buttons = [
    element("button", { type: "button", onclick: act("record", "Recording is requested.") }, "Record now"),
    element("button", { type: "button", onclick: act("stop", "A stop is requested.") }, "Stop watching"),
  ];
  const content = element("div", { class: "cl-watch-content" });
  const heading = element("h4", { hidden: true });
  const timeline = element("div", { class: "cudalens cl-watch-timeline", hidden: true });
  const tools = element("div", { class: "cl-watch-tools" }, ...buttons, note);
  const root = element("div", { class: "cudalens-watch" }, tools, content, heading, timeline);
  return { root, content, buttons, note, heading, timeline };
}

/**
 * Shows the tree; what the user has unfolded stays open.
 *
 * @param {HTMLElement} content
 * @param {PanelState["_panel"]} panel
 */
function showTree(content, { tree }) {
  if (!tree) return;
  const open = findAll(content, "details", HTMLDetailsElement).map((node) => node.open);
  content.replaceChildren(buildElement(tree));
  for (const [k, node] of findAll(content, "details", HTMLDetailsElement).entries()) node.open = open[k] ?? node.open;
}

/**
 * The timeline of the last recording. It stays as it is while the pointer is over it.
 *
 * @param {ReturnType<typeof buildParts>} parts
 */
function createRecordingView({ heading, timeline: host }) {
  /** @type {TimelineView | null} */
  let view = null;
  let number = 0;
  const unwatch = watchPageTheme((theme) => {
    host.dataset.theme = theme;
    view?.setTheme(theme);
  });
  return {
    /**
     * @param {number} step
     * @param {DataView<ArrayBuffer>} buffer
     */
    async show(step, buffer) {
      number += 1;
      const own = number;
      const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
      const data = await decodePayload(bytes);
      if (own !== number || (view && host.matches(":hover"))) return;
      view?.destroy();
      heading.hidden = host.hidden = false;
      heading.textContent = `Timeline of step ${step.toLocaleString("en")}: click it, then scroll to zoom, drag to move`;
      host.dataset.theme = pageTheme();
      host.dataset.step = String(step);
      view = createTimeline(host, data, { theme: pageTheme() });
    },
    destroy() {
      number += 1;
      unwatch();
      view?.destroy();
    },
  };
}
