// The elements of the memory map, in their order.

import { element } from "../shared/dom.js";
import { formatBytes, formatPlural } from "../shared/format.js";
import { COLOR_MODES } from "./colors.js";
import { actionButton, buttonChoice, seriesLegend } from "./controls.js";
import { groupingsOf } from "./grouping.js";

/** @import { ColorMode, Legend } from "./colors.js" */
/** @import { MemoryHeader } from "./data.js" */
/** @import { Grouping } from "./grouping.js" */
/** @import { MapState } from "./map.js" */
/** @typedef {ReturnType<typeof buildParts>} MapParts */

/**
 * @typedef {object} MapActions
 * @property {(device: number) => void} onDevice
 * @property {(isTime: boolean) => void} onAxis
 * @property {() => void} onPeak
 * @property {() => void} onEnd
 * @property {(factor: number) => void} onZoom
 * @property {() => void} onFit
 * @property {(mode: ColorMode) => void} onColor
 * @property {(by: Grouping) => void} onGrouping
 */

const ZOOM_STEP = 1.6;

/**
 * @param {MapState} state
 * @param {MapActions} actions
 */
export function buildParts(state, actions) {
  const { data } = state;
  const curve = element("div", { class: "mm-curve" });
  const map = element("div", { class: "mm-map" });
  const details = element("aside", { class: "mm-details", "aria-label": "Chosen block", hidden: true });
  const moment = element("p", { class: "mm-moment", "aria-live": "polite" });
  const legend = element("p", { class: "mm-legend" });
  const bar = element("div", { class: "mm-fragmentation" });
  const holders = element("div", { class: "mm-holders" });
  const flame = element("div", { class: "mm-flame" });
  const devices = deviceChoice(state, actions);
  const colors = buttonChoice("Colour", colorEntries(), state.color, actions.onColor);
  const by = buttonChoice("By", groupingsOf(data), state.by, actions.onGrouping);
  const all = [
    ...(data.header.devices.length > 1 ? [devices.group] : []),
    ...(data.numRows ? [historyTools(data.clock !== null, actions), curve, curveHint()] : []),
    moment,
    ...hiddenNote(data.header),
    bar,
    element("div", { class: "mm-tools" }, colors.group, zoomButtons(actions)),
    legend,
    element("div", { class: "mm-columns" }, map, details),
    element("div", { class: "mm-tools" }, element("h4", { "aria-level": 3 }, "Who holds it"), by.group),
    holders,
    ...(data.stacks.n ? [element("h4", { "aria-level": 3 }, "Bytes by call stack"), flame] : []),
  ];
  return { all, curve, map, details, moment, legend, bar, holders, flame, devices, colors };
}

/**
 * @param {MapState} state
 * @param {MapActions} actions
 */
function deviceChoice({ data, device }, { onDevice }) {
  /** @type {[string, string][]} */
  const entries = data.header.devices.map(({ label }, k) => [String(k), label]);
  return buttonChoice("Device", entries, String(device), (key) => onDevice(Number(key)));
}

function colorEntries() {
  const entries = /** @type {[ColorMode, string][]} */ (Object.entries(COLOR_MODES));
  return entries.map(([key, text]) => /** @type {[ColorMode, string]} */ ([key, text.toLowerCase()]));
}

/**
 * @param {boolean} hasTimes
 * @param {MapActions} actions
 */
function historyTools(hasTimes, { onAxis, onPeak, onEnd }) {
  /** @type {["time" | "action", string][]} */
  const axes = [
    ["time", "time"],
    ["action", "actions"],
  ];
  const jump = element(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Moment" },
    actionButton("At the peak", "Show the moment of the peak", onPeak),
    actionButton("At the end", "Show the last moment", onEnd),
  );
  const axis = hasTimes ? buttonChoice("Axis", axes, "time", (key) => onAxis(key === "time")).group : null;
  return element("div", { class: "mm-tools" }, seriesLegend(), axis, jump);
}

function curveHint() {
  return element("p", { class: "cl-hint" }, "Click or drag along the curve to see what was there then.");
}

/** @param {MapActions} actions */
function zoomButtons({ onZoom, onFit }) {
  return element(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Zoom of the map" },
    actionButton("−", "Zoom out", () => onZoom(1 / ZOOM_STEP)),
    actionButton("+", "Zoom in", () => onZoom(ZOOM_STEP)),
    actionButton("fit", "Show all", onFit),
  );
}

/** @param {MemoryHeader} header */
function hiddenNote({ hidden }) {
  if (!hidden.num) return [];
  const text = `${formatPlural(hidden.num, "small allocation")} (${formatBytes(hidden.bytes)} together)`;
  return [element("p", { class: "cl-hint" }, `${text} are in the curve and not in the map.`)];
}

/**
 * @param {HTMLElement} host
 * @param {Legend} entries
 * @param {boolean} hasPending Whether blocks wait for a stream.
 */
export function showLegend(host, entries, hasPending) {
  const keys = entries.map(({ css, label }) => {
    const swatch = element("i", {});
    swatch.style.background = css;
    return element("span", { class: "mm-key", title: label }, swatch, label);
  });
  const pending = element("span", { class: "mm-key" }, element("i", { class: "mm-waits" }), "waits for a stream");
  const free = element("span", { class: "mm-key" }, element("i", { class: "mm-free" }), "free");
  host.replaceChildren(...keys, ...(hasPending ? [pending] : []), free);
}
