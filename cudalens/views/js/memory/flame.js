// Bytes by call stack as an icicle: the outermost caller on top, each stack frame as wide as what was allocated beneath it.
// A click makes a stack frame the width of the view; the search marks what fits.

import { mmFrameText } from "./data.js";
import { mmChildren, mmStackSums, mmStackTree } from "./stacks.js";
import { themeHash } from "../shared/theme.js";
import { uiElement, uiPercent, uiPlural, uiSize } from "../shared/dom.js";

const MM_FLAME_ROW = 19;
const MM_FLAME_MAX = 420;
const MM_FLAME = { light: ["#f3b562", "#f0a06a", "#eec57c", "#e9927a", "#f6d08f"], dark: ["#a8642a", "#9c5230", "#8f6b2f", "#a14b3f", "#b07a35"] };

/**
 * Builds the flame graph in `host`.
 *
 * @param {object} options {theme, onZoom(function that tells whether a stack is inside, or null)}
 * @returns {object} show(lives), zoom(node), search(text), boxes() of what is drawn, setTheme, resize, destroy.
 */
export function mmCreateFlame(host, data, options) {
  const input = uiElement("input", { type: "search", class: "mm-search", placeholder: "Search functions and files", "aria-label": "Search call stacks" });
  const reset = uiElement("button", { type: "button", class: "cl-button", hidden: true, onclick: () => mmFlameZoom(flame, 0) }, "Whole graph");
  const found = uiElement("span", { class: "mm-muted", "aria-live": "polite" });
  const canvas = uiElement("canvas", { class: "mm-flame-canvas", tabindex: 0, role: "application",
    "aria-label": "Bytes by call stack. Arrow keys go between stack frames, Enter zooms, Escape shows all." });
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  const said = uiElement("p", { class: "mm-said", "aria-live": "polite" });
  const scroller = uiElement("div", { class: "mm-flame-scroll" }, canvas);
  host.replaceChildren(uiElement("div", { class: "mm-tools" }, input, reset, found), uiElement("div", { class: "mm-flame-stage" }, scroller, tip), said);
  const flame = { data, options, host, canvas, tip, said, reset, found, theme: options.theme, tree: null, chosen: [], root: 0, query: "",
    boxes: [], focus: -1, pending: 0 };
  mmListenFlame(flame, input);
  return {
    show(chosen) {
      if (!data.stacks.n) return;
      flame.tree ??= mmStackTree(data.stacks);
      flame.children ??= mmChildren(flame.tree);
      flame.sums = mmStackSums(flame.tree, data.lives, chosen);
      mmFlamePaint(flame);
    },
    zoom: (node) => mmFlameZoom(flame, node),
    search(text) {
      input.value = text;
      mmFlameSearch(flame, text);
    },
    get tree() { return flame.tree; },
    get sums() { return flame.sums; },
    get root() { return flame.root; },
    boxes: () => flame.boxes,
    textOf: (node) => mmFlameText(flame, node),
    setTheme(theme) {
      flame.theme = theme;
      mmFlamePaint(flame);
    },
    resize: () => host.clientWidth !== flame.width && mmFlamePaint(flame),
    destroy() {
      cancelAnimationFrame(flame.pending);
      host.replaceChildren();
    },
  };
}

const mmFlameText = (flame, node) => (node ? mmFrameText(flame.data.stacks.frameAt(flame.tree.frame[node])) : "all");

// The boxes of nodes that are wide enough to be seen, from the root of the view down; its callers stand above it.
function mmFlameLayout(flame) {
  const { tree, sums, children, width, root } = flame;
  const above = [];
  for (let k = root; k >= 0; k = tree.parent[k]) above.unshift(k);
  const boxes = above.map((node, row) => ({ node, x: 0, width, row }));
  const open = [[root, 0, above.length]];
  const scale = width / Math.max(sums.bytes[root], 1);
  while (open.length) {
    const [node, x, row] = open.pop();
    let at = x;
    for (const child of [...children[node]].sort((a, b) => sums.bytes[b] - sums.bytes[a])) {
      const wide = sums.bytes[child] * scale;
      if (wide < 0.8) break;
      boxes.push({ node: child, x: at, width: wide, row });
      open.push([child, at, row + 1]);
      at += wide;
    }
  }
  return boxes;
}

function mmFlamePaint(flame) {
  if (flame.pending || !flame.tree) return;
  flame.pending = requestAnimationFrame(() => {
    flame.pending = 0;
    mmFlamePaintNow(flame);
  });
}

function mmFlamePaintNow(flame) {
  const { canvas, theme } = flame;
  flame.width = Math.max(flame.host.clientWidth || flame.width || 0, 160);
  flame.boxes = mmFlameLayout(flame);
  const height = MM_FLAME_ROW * (1 + flame.boxes.reduce((most, { row }) => Math.max(most, row), 0));
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.floor(flame.width * ratio);
  canvas.height = Math.floor(height * ratio);
  canvas.style.width = `${flame.width}px`;
  canvas.style.height = `${height}px`;
  canvas.parentElement.style.maxHeight = `${MM_FLAME_MAX}px`;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  context.scale(ratio, ratio);
  context.font = `11px ${style.fontFamily}`;
  context.textBaseline = "middle";
  for (const box of flame.boxes) mmFlameBox(flame, context, box, theme, style.color);
}

function mmFlameBox(flame, context, { node, x, width, row }, theme, ink) {
  const { query, focus, tree, root } = flame;
  const text = mmFlameText(flame, node);
  const isFound = query && text.toLowerCase().includes(query);
  const hues = MM_FLAME[theme];
  const isAbove = node !== root && row <= tree.depth[root];
  context.globalAlpha = query && !isFound ? 0.4 : isAbove ? 0.6 : 1;
  context.fillStyle = isFound ? (theme === "dark" ? "#7a5cc4" : "#b79cf0") : node ? hues[themeHash(text) % hues.length] : hues[0];
  context.fillRect(x, row * MM_FLAME_ROW, Math.max(width - 1, 0.6), MM_FLAME_ROW - 1);
  context.globalAlpha = 1;
  if (width > 30) {
    context.save();
    context.beginPath();
    context.rect(x, row * MM_FLAME_ROW, width - 3, MM_FLAME_ROW);
    context.clip();
    context.fillStyle = theme === "dark" ? "#ffffff" : "#000000";
    context.fillText(`${text}  ${uiSize(flame.sums.bytes[node])}`, x + 4, row * MM_FLAME_ROW + MM_FLAME_ROW / 2);
    context.restore();
  }
  if (node === focus) {
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x + 1, row * MM_FLAME_ROW + 1, Math.max(width - 3, 1), MM_FLAME_ROW - 3);
  }
}

function mmFlameZoom(flame, node) {
  flame.root = node;
  flame.reset.hidden = node === 0;
  flame.tip.hidden = true;
  mmFlamePaint(flame);
  const { tree } = flame;
  const isUnder = (at) => {
    for (let k = at; k >= 0; k = tree.parent[k]) if (k === node) return true;
    return false;
  };
  const inside = node ? Uint8Array.from(tree.leaf, (leaf) => (isUnder(leaf) ? 1 : 0)) : null;
  flame.options.onZoom(inside && ((stack) => stack >= 0 && inside[stack] === 1));
}

function mmFlameSearch(flame, text) {
  flame.query = text.trim().toLowerCase();
  mmFlamePaint(flame);
  if (!flame.query || !flame.tree) {
    flame.found.textContent = "";
    return;
  }
  const { tree, sums } = flame;
  const isHit = tree.parent.map((_, k) => k > 0 && mmFlameText(flame, k).toLowerCase().includes(flame.query));
  let [bytes, num] = [0, 0];
  // Only the outermost of nested hits counts, so that no byte counts twice.
  const isInside = new Uint8Array(tree.parent.length);
  for (let k = 1; k < tree.parent.length; k++) {
    isInside[k] = isInside[tree.parent[k]] || isHit[tree.parent[k]] ? 1 : 0;
    if (!isHit[k] || isInside[k]) continue;
    bytes += sums.bytes[k];
    num += sums.num[k];
  }
  const share = sums.bytes[0] ? (100 * bytes) / sums.bytes[0] : 0;
  flame.found.textContent = num ? `${uiSize(bytes)} (${uiPercent(share)}) in ${uiPlural(num, "block")}` : "nothing fits";
}

function mmListenFlame(flame, input) {
  const { canvas, tip } = flame;
  const boxAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, row] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / MM_FLAME_ROW)];
    return flame.boxes.find((one) => one.row === row && one.x <= x && x < one.x + Math.max(one.width, 1));
  };
  input.addEventListener("input", () => mmFlameSearch(flame, input.value));
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) mmFlameZoom(flame, box.node);
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    tip.hidden = !box;
    if (!box) return;
    tip.replaceChildren(...mmFlameWords(flame, box.node).map((line) => uiElement("div", {}, line)));
    const stage = tip.parentElement.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(event.clientX - stage.left + 12, flame.width - tip.offsetWidth - 4), 0)}px`;
    tip.style.top = `${event.clientY - stage.top + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("keydown", (event) => mmFlameKey(flame, event));
}

function mmFlameWords(flame, node) {
  const { sums } = flame;
  const { file } = node ? flame.data.stacks.frameAt(flame.tree.frame[node]) : { file: "" };
  const share = sums.bytes[0] ? (100 * sums.bytes[node]) / sums.bytes[0] : 0;
  return [mmFlameText(flame, node), `${uiSize(sums.bytes[node])} (${uiPercent(share)}) in ${uiPlural(sums.num[node], "block")}`, file].filter(Boolean);
}

// Up to the caller, down to the largest callee, left and right among the callees of one caller.
function mmFlameKey(flame, event) {
  if (!flame.tree || event.altKey || event.ctrlKey || event.metaKey) return;
  const { boxes, tree } = flame;
  const box = boxes.find(({ node }) => node === flame.focus) ?? boxes[0];
  const beside = boxes.filter(({ row }) => row === box.row).sort((a, b) => a.x - b.x);
  const step = (by) => beside[Math.min(Math.max(beside.indexOf(box) + by, 0), beside.length - 1)].node;
  const below = boxes.filter(({ node }) => tree.parent[node] === box.node).sort((a, b) => b.width - a.width)[0];
  const moves = { ArrowUp: () => Math.max(tree.parent[box.node], 0), ArrowDown: () => below?.node ?? box.node, ArrowLeft: () => step(-1), ArrowRight: () => step(1) };
  if (event.key in moves) {
    flame.focus = flame.focus < 0 ? boxes[0].node : moves[event.key]();
    flame.said.textContent = mmFlameWords(flame, flame.focus).join(", ");
    mmFlamePaint(flame);
  } else if ((event.key === "Enter" || event.key === " ") && flame.focus >= 0) mmFlameZoom(flame, flame.focus);
  else if (event.key === "Escape" && flame.root) mmFlameZoom(flame, 0);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
