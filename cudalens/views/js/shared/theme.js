// The palette of theme.json, and which of its colours an event has. cudalens/views/assets.py does the same in Python; a
// test compares the two.

import PALETTE from "../../css/theme.json" with { type: "json" };

/** @typedef {"light" | "dark"} ThemeName */
/** @typedef {[number, number, number]} Rgb Red, green and blue, 0 to 255. */
/** @typedef {typeof PALETTE.light} ThemeColors */
/** @typedef {{ pixels: Uint32Array, css: string[], ink: string[] }} Tones */

export const THEME = PALETTE;

/**
 * Index into THEME.groups by category and name: kernels of a communication library are a group of their own.
 *
 * @param {string} category
 * @param {string} name
 */
export function groupOf(category, name) {
  const { groups } = THEME;
  const found = groups.findIndex((group) => group.cats.includes(category));
  if (found < 0) return groups.length - 1;
  const isComm = groups[found].key === "kernel" && THEME.comm_prefixes.some((prefix) => name.startsWith(prefix));
  return isComm ? groups.findIndex((group) => group.key === "comm") : found;
}

/**
 * FNV-1a over UTF-16 units, 32 bits.
 *
 * @param {string} name
 */
export function nameHash(name) {
  let value = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) value = Math.imul(value ^ name.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

/**
 * @param {string} color As "#rrggbb".
 * @returns {Rgb}
 */
export function rgbOf(color) {
  const [r, g, b] = [1, 3, 5].map((k) => Number.parseInt(color.slice(k, k + 2), 16));
  return [r, g, b];
}

/**
 * `color` with `share` of `toward` mixed in.
 *
 * @param {string} color
 * @param {string} toward
 * @param {number} share 0 to 1.
 * @returns {Rgb}
 */
function mixColors(color, toward, share) {
  const other = rgbOf(toward);
  const [r, g, b] = rgbOf(color).map((a, k) => Math.floor(a + (other[k] - a) * share + 0.5));
  return [r, g, b];
}

/**
 * Relative luminance by WCAG 2.2.
 *
 * @param {Rgb} rgb
 */
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Number of shades of each group. The tone of an event is group * NUM_SHADES + shade.
export const NUM_SHADES = THEME.light.shades.length;

/**
 * Colours of all tones: packed ABGR without alpha for pixels, CSS colours for shapes, and black or white for text on
 * them.
 *
 * @param {ThemeName} mode
 * @returns {Tones}
 */
export function tonesOf(mode) {
  const shades = /** @type {[string, number][]} */ (THEME[mode].shades);
  const all = THEME.groups.flatMap((group) => shades.map(([toward, share]) => mixColors(group.color, toward, share)));
  return {
    pixels: Uint32Array.from(all, ([r, g, b]) => ((b << 16) | (g << 8) | r) >>> 0),
    css: all.map((rgb) => `rgb(${rgb.join(",")})`),
    ink: all.map((rgb) => ((luminance(rgb) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff")),
  };
}
