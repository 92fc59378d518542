// Colours of lines of devices: a device has the same colour in each curve of the page.

/** @import { ThemeName } from "./theme.js" */

const LINES = {
  light: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b", "#b02f78", "#5a7a0a", "#a3301f"],
  dark: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0", "#f08cc4", "#b5d35a", "#ff9a8a"],
};
const HOST = { light: "#4f6673", dark: "#a9bfca" };

/**
 * The colour of a device: of its number, or of the host.
 *
 * @param {string} label `cuda:0`, `GPU 3` or `cpu`.
 * @param {ThemeName} theme
 */
export function deviceColor(label, theme) {
  const number = label.startsWith("cpu") ? null : /\d+$/.exec(label);
  const lines = LINES[theme];
  return number ? lines[Number(number[0]) % lines.length] : HOST[theme];
}
