// Lay out and paint the flame graph.

import { contextOf, cutToWidth } from "../shared/dom.js";
import { nameHash } from "../shared/theme.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { FlameGraph, FlameOptions } from "./flame.js" */

/**
 * A node as drawn, px. Where it is the last of a chain of callers with one callee each, it shows `folded` of them.
 *
 * @typedef {{ node: number, x: number, width: number, row: number, folded: number }} FlameBox
 */

/**
 * @typedef {object} FlamePicture
 * @property {FlameGraph} graph
 * @property {number} root
 * @property {number} focus
 * @property {string} query
 * @property {ThemeName} theme
 * @property {number} width px
 * @property {FlameOptions} options
 */

export const ROW_HEIGHT = 19;
export const MAX_HEIGHT = 420;
const MIN_BOX_PX = 0.8;
// Chains of at least so many callers with one callee each are one row, at the top of the graph.
const MIN_CHAIN = 4;
const MAX_CHAIN_ROW = 2;
const CHAIN_SHARE = 0.99;
const FLAME_COLORS = {
  light: ["#f3b562", "#f0a06a", "#eec57c", "#e9927a", "#f6d08f"],
  dark: ["#a8642a", "#9c5230", "#8f6b2f", "#a14b3f", "#b07a35"],
};
const INK = { light: "#000000", dark: "#ffffff" };
const MATCH_COLOR = { light: "#b79cf0", dark: "#7a5cc4" };

/**
 * The boxes of nodes that are wide enough to be seen: the callers of `root`, and what is below it.
 *
 * @param {FlameGraph} graph
 * @param {number} root
 * @param {number} width px
 */
export function layoutBoxes({ parent: above, weight, children }, root, width) {
  const boxes = callersOf(above, root, width);
  const scale = width / Math.max(weight[root], 1);
  const open = [{ node: root, x: 0, row: boxes.length }];
  for (let parent = open.pop(); parent; parent = open.pop()) {
    let { x } = parent;
    const { row } = parent;
    for (const node of [...children[parent.node]].sort((a, b) => weight[b] - weight[a])) {
      const wide = weight[node] * scale;
      if (wide < MIN_BOX_PX) break;
      const chain = parent.row <= MAX_CHAIN_ROW ? chainOf(children, weight, node) : [node];
      const isFolded = chain.length >= MIN_CHAIN;
      const shown = isFolded ? chain[chain.length - 1] : node;
      boxes.push({ node: shown, x, width: wide, row, folded: isFolded ? chain.length : 0 });
      open.push({ node: shown, x, row: row + 1 });
      x += wide;
    }
  }
  return boxes;
}

/**
 * The callers of `root` and itself; where there are many, those in the middle are one box.
 *
 * @param {ArrayLike<number>} above
 * @param {number} root
 * @param {number} width px
 * @returns {FlameBox[]}
 */
function callersOf(above, root, width) {
  /** @type {number[]} */
  const callers = [];
  for (let k = root; k >= 0; k = above[k]) callers.unshift(k);
  const isFolded = callers.length > MIN_CHAIN + 1;
  const shown = isFolded ? [callers[0], above[root], root] : callers;
  return shown.map((node, row) => ({ node, x: 0, width, row, folded: isFolded && row === 1 ? callers.length - 2 : 0 }));
}

/**
 * A node and the callees below it, as long as each has one callee that takes nearly all of its weight.
 *
 * @param {number[][]} children
 * @param {Float64Array} weight
 * @param {number} node
 */
function chainOf(children, weight, node) {
  const chain = [node];
  for (let k = node; ; ) {
    const next = children[k].find((child) => weight[child] >= CHAIN_SHARE * weight[k]);
    if (next === undefined || !children[next].length) return chain;
    chain.push(next);
    k = next;
  }
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
function paintBox(context, { node, x, width, row, folded }, { graph, root, query, theme, options }) {
  const text = folded ? `${folded} callers, to ${options.textOf(node)}` : options.textOf(node);
  const isMatch = query !== "" && text.toLowerCase().includes(query);
  const isCaller = node !== root && row <= graph.depth[root];
  const [fill, ink] = colorsOf(graph, node, text, theme, options);
  const top = row * ROW_HEIGHT;
  context.globalAlpha = query && !isMatch ? 0.4 : isCaller ? 0.6 : 1;
  context.fillStyle = isMatch ? MATCH_COLOR[theme] : fill;
  context.fillRect(x, top, Math.max(width - 1, 0.6), ROW_HEIGHT - 1);
  context.globalAlpha = 1;
  if (width <= 30) return;
  context.fillStyle = isMatch || context.globalAlpha < 1 ? INK[theme] : ink;
  const room = width - 8;
  const whole = `${text}  ${options.format(graph.weight[node])}`;
  const shown = context.measureText(whole).width <= room ? whole : cutToWidth(context, text, room);
  context.fillText(shown, x + 4, top + ROW_HEIGHT / 2);
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

/**
 * The colours of a node and its text: by its change against another run, red for more and blue for less, else those of
 * the view, else by its text.
 *
 * @param {FlameGraph} graph
 * @param {number} node
 * @param {string} text
 * @param {ThemeName} theme
 * @param {FlameOptions} options
 * @returns {[fill: string, ink: string]}
 */
function colorsOf({ weight, before }, node, text, theme, { colorOf }) {
  if (before) {
    const change = (weight[node] - before[node]) / Math.max(weight[node], before[node], 1);
    const share = Math.round(Math.min(1, Math.abs(change)) * 80);
    const [hue, plain] = [change > 0 ? "#d1493f" : "#2f6fd0", theme === "dark" ? "#4a525c" : "#dfe3e8"];
    return [`color-mix(in srgb, ${hue} ${share}%, ${plain})`, theme === "dark" || share > 55 ? "#ffffff" : "#000000"];
  }
  if (colorOf)
    return node ? colorOf(node, text, theme) : theme === "dark" ? ["#4a525c", "#ffffff"] : ["#dfe3e8", "#000000"];
  const colors = FLAME_COLORS[theme];
  return [colors[node ? nameHash(text) % colors.length : 0], INK[theme]];
}
