// Lay out and paint the flame graph.

import { contextOf } from "../shared/dom.js";
import { formatBytes } from "../shared/format.js";
import { nameHash } from "../shared/theme.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { FlameGraph } from "./flame.js" */

/** @typedef {{ node: number, x: number, width: number, row: number }} FlameBox px */

/**
 * @typedef {object} FlamePicture
 * @property {FlameGraph} graph
 * @property {number} root
 * @property {number} focus
 * @property {string} query
 * @property {ThemeName} theme
 * @property {number} width px
 * @property {(node: number) => string} textOf
 */

export const ROW_HEIGHT = 19;
export const MAX_HEIGHT = 420;
const MIN_BOX_PX = 0.8;
const FLAME_COLORS = {
  light: ["#f3b562", "#f0a06a", "#eec57c", "#e9927a", "#f6d08f"],
  dark: ["#a8642a", "#9c5230", "#8f6b2f", "#a14b3f", "#b07a35"],
};
const MATCH_COLOR = { light: "#b79cf0", dark: "#7a5cc4" };

/**
 * The boxes of nodes that are wide enough to be seen: the callers of `root`, and what is below it.
 *
 * @param {FlameGraph} graph
 * @param {number} root
 * @param {number} width px
 */
export function layoutBoxes({ tree, sums, children }, root, width) {
  /** @type {number[]} */
  const callers = [];
  for (let k = root; k >= 0; k = tree.parent[k]) callers.unshift(k);
  /** @type {FlameBox[]} */
  const boxes = callers.map((node, row) => ({ node, x: 0, width, row }));
  const scale = width / Math.max(sums.bytes[root], 1);
  const open = [{ node: root, x: 0, row: callers.length }];
  for (let parent = open.pop(); parent; parent = open.pop()) {
    let { x } = parent;
    const { row } = parent;
    for (const node of [...children[parent.node]].sort((a, b) => sums.bytes[b] - sums.bytes[a])) {
      const wide = sums.bytes[node] * scale;
      if (wide < MIN_BOX_PX) break;
      boxes.push({ node, x, width: wide, row });
      open.push({ node, x, row: row + 1 });
      x += wide;
    }
  }
  return boxes;
}

/**
 * @param {HTMLCanvasElement} canvas
 * @param {FlameBox[]} boxes
 * @param {FlamePicture} picture
 */
export function paintFlame(canvas, boxes, picture) {
  const height = ROW_HEIGHT * (1 + boxes.reduce((most, { row }) => Math.max(most, row), 0));
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.floor(picture.width * ratio);
  canvas.height = Math.floor(height * ratio);
  canvas.style.width = `${picture.width}px`;
  canvas.style.height = `${height}px`;
  const context = contextOf(canvas);
  const style = getComputedStyle(canvas);
  context.scale(ratio, ratio);
  context.font = `11px ${style.fontFamily}`;
  context.textBaseline = "middle";
  for (const box of boxes) paintBox(context, box, picture);
  const focused = boxes.find(({ node }) => node === picture.focus);
  if (focused) outline(context, focused, style.color);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {FlameBox} box
 * @param {FlamePicture} picture
 */
function paintBox(context, { node, x, width, row }, { graph, root, query, theme, textOf }) {
  const text = textOf(node);
  const isMatch = query !== "" && text.toLowerCase().includes(query);
  const isCaller = node !== root && row <= graph.tree.depth[root];
  const colors = FLAME_COLORS[theme];
  const top = row * ROW_HEIGHT;
  context.globalAlpha = query && !isMatch ? 0.4 : isCaller ? 0.6 : 1;
  context.fillStyle = isMatch ? MATCH_COLOR[theme] : colors[node ? nameHash(text) % colors.length : 0];
  context.fillRect(x, top, Math.max(width - 1, 0.6), ROW_HEIGHT - 1);
  context.globalAlpha = 1;
  if (width <= 30) return;
  context.save();
  context.beginPath();
  context.rect(x, top, width - 3, ROW_HEIGHT);
  context.clip();
  context.fillStyle = theme === "dark" ? "#ffffff" : "#000000";
  context.fillText(`${text}  ${formatBytes(graph.sums.bytes[node])}`, x + 4, top + ROW_HEIGHT / 2);
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {FlameBox} box
 * @param {string} color
 */
function outline(context, { x, width, row }, color) {
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.strokeRect(x + 1, row * ROW_HEIGHT + 1, Math.max(width - 3, 1), ROW_HEIGHT - 3);
}
