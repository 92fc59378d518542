// The palette of theme.json, and which of its colours an event has. cudalens/views/theme.py does the same in Python; a
// test compares the two.

import TIMELINE_THEME from "../../css/theme.json" with { type: "json" };

export { TIMELINE_THEME };

// Index into TIMELINE_THEME.groups by category and name: kernels of a communication library have their own hue.
export function themeGroup(category, name) {
  const { groups } = TIMELINE_THEME;
  const found = groups.findIndex((group) => group.cats.includes(category));
  if (found < 0) return groups.length - 1;
  const isComm = groups[found].key === "kernel" && TIMELINE_THEME.comm_prefixes.some((p) => name.startsWith(p));
  return isComm ? groups.findIndex((group) => group.key === "comm") : found;
}

// FNV-1a over UTF-16 units, 32 bits.
export function themeHash(name) {
  let value = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) value = Math.imul(value ^ name.charCodeAt(i), 0x01000193);
  return value >>> 0;
}

const themeRgb = (color) => [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));

// `color` with `share` of `toward` mixed in, as [r, g, b].
export function themeMix(color, toward, share) {
  const other = themeRgb(toward);
  return themeRgb(color).map((a, k) => Math.floor(a + (other[k] - a) * share + 0.5));
}

// Relative luminance of [r, g, b] by WCAG 2.2.
export function themeLuminance(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

// Number of tones: every group in every shade. Tone of an event = group * shades + shade.
export const THEME_SHADES = TIMELINE_THEME.light.shades.length;

// Colours of all tones in a mode: packed ABGR without alpha for pixels, css for shapes, and black or white to write on it.
export function themeTones(mode) {
  const { shades } = TIMELINE_THEME[mode];
  const all = TIMELINE_THEME.groups.flatMap((group) => shades.map(([toward, share]) => themeMix(group.color, toward, share)));
  return {
    pixels: Uint32Array.from(all, ([r, g, b]) => ((b << 16) | (g << 8) | r) >>> 0),
    css: all.map((rgb) => `rgb(${rgb.join(",")})`),
    ink: all.map((rgb) => ((themeLuminance(rgb) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff")),
  };
}
