// Colours of blocks: by category, stream, age or call stack, with the legend that goes with them.

import { mmGrouped } from "./moment.js";
import { uiDuration } from "../shared/dom.js";

// Okabe and Ito's hues and their lighter kin; an unknown is grey.
const MM_HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400", "#7a5cc4", "#8c6d46", "#3fb8a0", "#c2476b"];
const MM_UNKNOWN = { light: "#9aa4af", dark: "#6f7b87" };
const MM_AGES = { light: ["#fde08a", "#f5ae4d", "#e0733f", "#b3404f", "#7b2764", "#421a5c"],
  dark: ["#fff1b8", "#fbc15e", "#f08a4b", "#d2555f", "#a04a8f", "#6d4fb0"] };
export const MM_GROUND = {
  light: { gap: [238, 241, 245], hatch: [188, 197, 207], dim: [214, 220, 227] },
  dark: { gap: [33, 39, 46], hatch: [73, 84, 96], dim: [52, 60, 69] },
};

export const MM_COLORS = { category: "Category", stream: "Stream", age: "Age", stack: "Call stack" };

const mmRgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
export const mmPacked = ([r, g, b]) => ((255 << 24) | (b << 16) | (g << 8) | r) >>> 0;

/**
 * How the blocks of a moment are coloured.
 *
 * @returns {object} of(life): index into `css` and `pixels`; legend: [{css, label}].
 */
export function mmColoring(data, moment, mode, theme) {
  const made = { category: mmByCategory, stream: mmByStream, age: mmByAge, stack: mmByStack }[mode](data, moment, theme);
  const rgb = made.css.map(mmRgb);
  return { ...made, rgb, pixels: Uint32Array.from(rgb, mmPacked), edges: Uint32Array.from(rgb, (c) => mmPacked(mmShade(c, theme))) };
}

function mmShade(rgb, theme) {
  const toward = theme === "dark" ? 0 : 255;
  return rgb.map((v) => Math.round(v + (toward - v) * 0.45));
}

function mmByCategory(data, moment, theme) {
  const { categories } = data.header;
  const css = [MM_UNKNOWN[theme], ...categories.map((_, k) => MM_HUES[k % MM_HUES.length])];
  const present = mmGrouped(data, moment.lives, "category");
  return { css, of: (life) => data.lives.category[life], legend: present.map(({ key, label }) => ({ css: css[key], label })) };
}

function mmByStream(data, moment, theme) {
  const { pools } = data.header;
  const streams = [...new Set(pools.map(({ stream }) => stream))].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  const css = [MM_UNKNOWN[theme], ...streams.map((_, k) => MM_HUES[k % MM_HUES.length])];
  const index = pools.map(({ stream }) => (stream === null ? 0 : 1 + streams.indexOf(stream)));
  const present = [...new Set([...moment.strips].map(({ pool }) => index[pool]))].sort((a, b) => a - b);
  const label = (k) => (k ? `stream ${streams[k - 1]}` : "stream not recorded");
  return { css, of: (life) => index[data.lives.pool[life]], legend: present.map((k) => ({ css: css[k], label: label(k) })) };
}

// Six classes from the youngest to the oldest of what the history saw; what was there before it has the grey.
function mmByAge(data, moment, theme) {
  const ramp = MM_AGES[theme];
  const css = [MM_UNKNOWN[theme], ...ramp];
  const { lives, clock } = data;
  const ageOf = (life) => (clock ? clock[Math.max(moment.row, 0)] - clock[lives.alloc[life]] : moment.row - lives.alloc[life]);
  let oldest = 1;
  for (const life of moment.lives) if (lives.alloc[life] >= 0) oldest = Math.max(oldest, ageOf(life));
  const ratio = 4;
  const of = (life) => {
    if (lives.alloc[life] < 0) return 0;
    const steps = Math.floor(Math.log(oldest / Math.max(ageOf(life), oldest * 1e-9)) / Math.log(ratio));
    return ramp.length - Math.min(Math.max(steps, 0), ramp.length - 1);
  };
  const text = (value) => (clock ? uiDuration(value) : `${Math.round(value).toLocaleString("en-US")} actions`);
  const bound = (k) => oldest / ratio ** (ramp.length - 1 - k);
  const legend = ramp.map((color, k) => ({ css: color, label: `up to ${text(bound(k))}` }));
  const before = moment.lives.some((life) => lives.alloc[life] < 0);
  return { css, of, legend: [...legend, ...(before ? [{ css: css[0], label: "from before the history" }] : [])] };
}

// The stacks that hold most have a hue of their own, the others share the grey.
function mmByStack(data, moment, theme) {
  const sums = mmGrouped(data, moment.lives, "stack");
  const top = sums.filter(({ key }) => key >= 0).slice(0, MM_HUES.length);
  const css = [MM_UNKNOWN[theme], ...MM_HUES];
  const index = new Map(top.map(({ key }, k) => [key, k + 1]));
  const legend = top.map(({ label }, k) => ({ css: MM_HUES[k], label }));
  const isMore = sums.length > top.length;
  return { css, of: (life) => index.get(data.lives.stack[life]) ?? 0,
    legend: [...legend, ...(isMore ? [{ css: css[0], label: "all others" }] : [])] };
}
