// Colours of blocks: by category, stream, age or call stack, with the legend that goes with them.

import { formatDuration } from "../shared/format.js";
import { rgbOf } from "../shared/theme.js";
import { curvesOf, peakRowOf } from "./curves.js";
import { groupAllocations } from "./grouping.js";
import { momentAt } from "./moment.js";

/** @import { Rgb, ThemeName } from "../shared/theme.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { Moment } from "./moment.js" */

/** @typedef {"category" | "stream" | "age" | "stack"} ColorMode */
/** @typedef {{ css: string, label: string }[]} Legend */

/**
 * @typedef {object} Classes
 * @property {string[]} css Colour of each class.
 * @property {(allocation: number) => number} of Class of an allocation.
 * @property {Legend} legend
 */

/** @typedef {{ css: string[], of: (allocation: number) => number, labels: string[] }} ColorClasses */
/** @typedef {Classes & { rgb: Rgb[], pixels: Uint32Array, edges: Uint32Array }} Coloring Colours as packed ABGR too. */

// Okabe and Ito's hues and similar ones; grey for what is not known.
const HUES = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#b8a400",
  "#7a5cc4",
  "#8c6d46",
  "#3fb8a0",
  "#c2476b",
];
const UNKNOWN_COLOR = { light: "#9aa4af", dark: "#6f7b87" };
const AGE_COLORS = {
  light: ["#fde08a", "#f5ae4d", "#e0733f", "#b3404f", "#7b2764", "#421a5c"],
  dark: ["#fff1b8", "#fbc15e", "#f08a4b", "#d2555f", "#a04a8f", "#6d4fb0"],
};
/** @type {{ [theme in ThemeName]: { gap: Rgb, hatch: Rgb, dim: Rgb } }} */
export const BACKGROUND_COLORS = {
  light: { gap: [238, 241, 245], hatch: [188, 197, 207], dim: [214, 220, 227] },
  dark: { gap: [33, 39, 46], hatch: [73, 84, 96], dim: [52, 60, 69] },
};

/** @type {{ [mode in ColorMode]: string }} */
export const COLOR_MODES = { category: "Category", stream: "Stream", age: "Age", stack: "Call stack" };

const CLASSES = { category: byCategory, stream: byStream, age: byAge, stack: byStack };

/**
 * A colour as an ABGR pixel.
 *
 * @param {Rgb} rgb
 */
export function packedColor([r, g, b]) {
  return ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;
}

/**
 * How the blocks of a moment are coloured.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {ColorMode} mode
 * @param {ThemeName} theme
 * @returns {Coloring}
 */
export function coloringOf(data, moment, mode, theme) {
  const classes = CLASSES[mode](data, moment, theme);
  const rgb = classes.css.map(rgbOf);
  return {
    ...classes,
    rgb,
    pixels: Uint32Array.from(rgb, packedColor),
    edges: Uint32Array.from(rgb, (color) => packedColor(edgeColor(color, theme))),
  };
}

/**
 * @param {Rgb} rgb
 * @param {ThemeName} theme
 * @returns {Rgb}
 */
function edgeColor(rgb, theme) {
  const toward = theme === "dark" ? 0 : 255;
  const [r, g, b] = rgb.map((v) => Math.round(v + (toward - v) * 0.45));
  return [r, g, b];
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {ThemeName} theme
 * @returns {Classes}
 */
function byCategory(data, moment, theme) {
  const { categories } = data.header;
  const css = [UNKNOWN_COLOR[theme], ...categories.map((_, k) => HUES[k % HUES.length])];
  const present = groupAllocations(data, moment.allocations, "category");
  return {
    css,
    of: (allocation) => data.allocations.category[allocation],
    legend: present.map(({ key, label }) => ({ css: css[Number(key)], label })),
  };
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {ThemeName} theme
 * @returns {Classes}
 */
function byStream({ header, allocations }, moment, theme) {
  const streams = [...new Set(header.pools.map(({ stream }) => stream))];
  streams.sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  const css = [UNKNOWN_COLOR[theme], ...streams.map((_, k) => HUES[k % HUES.length])];
  const index = header.pools.map(({ stream }) => (stream === null ? 0 : 1 + streams.indexOf(stream)));
  const present = [...new Set(moment.strips.map(({ pool }) => index[pool]))].sort((a, b) => a - b);
  return {
    css,
    of: (allocation) => index[allocations.pool[allocation]],
    legend: present.map((k) => ({ css: css[k], label: k ? `stream ${streams[k - 1]}` : "stream not recorded" })),
  };
}

const AGE_RATIO = 4;

/**
 * Six classes from the youngest to the oldest of what the history recorded; grey for what is older than the history.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {ThemeName} theme
 * @returns {Classes}
 */
function byAge({ allocations, clock }, moment, theme) {
  const { alloc } = allocations;
  const ramp = AGE_COLORS[theme];
  const css = [UNKNOWN_COLOR[theme], ...ramp];
  const ageOf = (/** @type {number} */ i) =>
    clock ? clock[Math.max(moment.row, 0)] - clock[alloc[i]] : moment.row - alloc[i];
  let oldest = 1;
  for (const i of moment.allocations) if (alloc[i] >= 0) oldest = Math.max(oldest, ageOf(i));
  const of = (/** @type {number} */ i) => {
    if (alloc[i] < 0) return 0;
    const steps = Math.floor(Math.log(oldest / Math.max(ageOf(i), oldest * 1e-9)) / Math.log(AGE_RATIO));
    return ramp.length - Math.min(Math.max(steps, 0), ramp.length - 1);
  };
  const legend = ramp.map((color, k) => {
    const bound = oldest / AGE_RATIO ** (ramp.length - 1 - k);
    const text = clock ? formatDuration(bound) : `${Math.round(bound).toLocaleString("en-US")} actions`;
    return { css: color, label: `up to ${text}` };
  });
  if (moment.allocations.some((i) => alloc[i] < 0)) legend.push({ css: css[0], label: "older than the recording" });
  return { css, of, legend };
}

/**
 * The stacks that hold most at the peak or at the end have a hue of their own, the others share the grey.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {ThemeName} theme
 * @returns {Classes}
 */
function byStack(data, moment, theme) {
  const { css, of, labels } = stackClasses(data, moment.device, theme);
  const present = new Set(moment.allocations.map(of));
  const legend = labels.map((label, k) => ({ css: css[k], label })).filter((_, k) => k > 0 && present.has(k));
  if (present.has(0)) legend.push({ css: css[0], label: labels[0] });
  return { css, of, legend };
}

/** @type {WeakMap<MemoryData, Map<number, { key: number, label: string }[]>>} */
const topStacks = new WeakMap();

/**
 * @param {MemoryData} data
 * @param {number} device
 */
function topStacksOf(data, device) {
  /** @type {Map<number, { key: number, label: string }[]>} */
  const known = topStacks.get(data) ?? new Map();
  topStacks.set(data, known);
  const kept = known.get(device);
  if (kept) return kept;
  const peak = data.numRows ? peakRowOf(curvesOf(data, device).allocated) : -1;
  /** @type {Map<number, { key: number, label: string, bytes: number }>} */
  const most = new Map();
  for (const row of new Set([peak, data.numRows - 1])) {
    for (const { key, label, bytes } of groupAllocations(data, momentAt(data, device, row).allocations, "stack")) {
      const stack = Number(key);
      if (stack >= 0 && bytes > (most.get(stack)?.bytes ?? 0)) most.set(stack, { key: stack, label, bytes });
    }
  }
  const top = [...most.values()].sort((a, b) => b.bytes - a.bytes).slice(0, HUES.length);
  known.set(device, top);
  return top;
}

/**
 * @param {MemoryData} data
 * @param {number} device
 * @param {ThemeName} theme
 * @returns {ColorClasses}
 */
function stackClasses(data, device, theme) {
  const top = topStacksOf(data, device);
  const index = new Map(top.map(({ key }, k) => [key, k + 1]));
  return {
    css: [UNKNOWN_COLOR[theme], ...HUES.slice(0, top.length)],
    of: (i) => index.get(data.allocations.stack[i]) ?? 0,
    labels: ["all others", ...top.map(({ label }) => label)],
  };
}

/**
 * Classes of the allocations of a device that are the same at all moments: by category, stream or call stack.
 *
 * @param {MemoryData} data
 * @param {number} device
 * @param {ColorMode} mode By age, which changes with the moment, is by category.
 * @param {ThemeName} theme
 * @returns {ColorClasses}
 */
export function colorClassesOf(data, device, mode, theme) {
  if (mode === "stack") return stackClasses(data, device, theme);
  const moment = momentAt(data, device, data.numRows - 1);
  if (mode === "stream") {
    const { css, of } = byStream(data, moment, theme);
    const streams = [...new Set(data.header.pools.map(({ stream }) => stream))];
    streams.sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
    return { css, of, labels: ["stream not recorded", ...streams.map((stream) => `stream ${stream}`)] };
  }
  const { css, of } = byCategory(data, moment, theme);
  return { css, of, labels: ["not known", ...data.header.categories] };
}
