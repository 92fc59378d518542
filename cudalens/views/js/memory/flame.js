// Bytes by call stack as an icicle graph: the outermost caller on top, each stack frame as wide as what was allocated
// below it. A click makes a stack frame as wide as the view; the search marks matches.

import { element } from "../shared/dom.js";
import { formatBytes, formatPercent, formatPlural } from "../shared/format.js";
import { stackFrameText } from "./data.js";
import { layoutBoxes, MAX_HEIGHT, paintFlame, ROW_HEIGHT } from "./flame_draw.js";
import { childrenOf, stackSums, stackTree } from "./stacks.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { FlameBox } from "./flame_draw.js" */
/** @import { StackSums, StackTree } from "./stacks.js" */

/**
 * @typedef {object} FlameOptions
 * @property {ThemeName} theme
 * @property {(isInside: ((stack: number) => boolean) | null) => void} onZoom With whether a stack is inside the node.
 */

/** @typedef {{ tree: StackTree, children: number[][], sums: StackSums }} FlameGraph */

/**
 * @typedef {object} Flame
 * @property {MemoryData} data
 * @property {FlameOptions} options
 * @property {HTMLElement} host
 * @property {HTMLInputElement} input
 * @property {HTMLButtonElement} reset
 * @property {HTMLElement} found
 * @property {HTMLElement} scroller
 * @property {HTMLElement} stage
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLElement} tip
 * @property {HTMLElement} spoken What screen readers read.
 * @property {ThemeName} theme
 * @property {FlameGraph | null} graph
 * @property {number} root The node that is as wide as the view.
 * @property {number} focus Node; -1 for none.
 * @property {string} query In lower case.
 * @property {FlameBox[]} boxes That are drawn.
 * @property {number} width px
 * @property {number} pending Animation frame that is requested; 0 for none.
 */

/**
 * @typedef {object} FlameView
 * @property {(chosen: Iterable<number>) => void} show Indices of allocations.
 * @property {(node: number) => void} zoom
 * @property {(text: string) => void} search
 * @property {StackTree | null} tree
 * @property {StackSums | null} sums
 * @property {number} root
 * @property {() => FlameBox[]} boxes
 * @property {(node: number) => string} textOf
 * @property {(theme: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => void} destroy
 */

/**
 * Builds the flame graph in `host`.
 *
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {FlameOptions} options
 * @returns {FlameView}
 */
export function createFlameGraph(host, data, options) {
  const flame = createState(host, data, options);
  const tools = element("div", { class: "mm-tools" }, flame.input, flame.reset, flame.found);
  host.replaceChildren(tools, flame.stage, flame.spoken);
  listenToFlame(flame);
  return {
    show(chosen) {
      if (!data.stacks.n) return;
      const tree = flame.graph?.tree ?? stackTree(data.stacks);
      const children = flame.graph?.children ?? childrenOf(tree);
      flame.graph = { tree, children, sums: stackSums(tree, data.allocations, chosen) };
      requestPaint(flame);
    },
    zoom: (node) => zoomToNode(flame, node),
    search(text) {
      flame.input.value = text;
      searchStacks(flame, text);
    },
    get tree() {
      return flame.graph?.tree ?? null;
    },
    get sums() {
      return flame.graph?.sums ?? null;
    },
    get root() {
      return flame.root;
    },
    boxes: () => flame.boxes,
    textOf: (node) => (flame.graph ? nodeText(data, flame.graph.tree, node) : ""),
    setTheme(theme) {
      flame.theme = theme;
      requestPaint(flame);
    },
    resize() {
      if (host.clientWidth !== flame.width) requestPaint(flame);
    },
    destroy() {
      cancelAnimationFrame(flame.pending);
      host.replaceChildren();
    },
  };
}

/**
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {FlameOptions} options
 * @returns {Flame}
 */
function createState(host, data, options) {
  const canvas = element("canvas", {
    class: "mm-flame-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Bytes by call stack. Arrow keys go between stack frames, Enter zooms, Escape shows all.",
  });
  const scroller = element("div", { class: "mm-flame-scroll" }, canvas);
  scroller.style.maxHeight = `${MAX_HEIGHT}px`;
  const tip = element("div", { class: "mm-tip", hidden: true });
  return {
    data,
    options,
    host,
    input: element("input", {
      type: "search",
      class: "mm-search",
      placeholder: "Search functions and files",
      "aria-label": "Search call stacks",
    }),
    reset: element("button", { type: "button", class: "cl-button", hidden: true }, "Whole graph"),
    found: element("span", { class: "mm-muted", "aria-live": "polite" }),
    scroller,
    stage: element("div", { class: "mm-flame-stage" }, scroller, tip),
    canvas,
    tip,
    spoken: element("p", { class: "mm-said", "aria-live": "polite" }),
    theme: options.theme,
    graph: null,
    root: 0,
    focus: -1,
    query: "",
    boxes: [],
    width: 0,
    pending: 0,
  };
}

/**
 * @param {MemoryData} data
 * @param {StackTree} tree
 * @param {number} node
 */
function nodeText({ stacks }, tree, node) {
  return node ? stackFrameText(stacks.frameAt(tree.frame[node])) : "all";
}

/** @param {Flame} flame */
function requestPaint(flame) {
  const { graph } = flame;
  if (flame.pending || !graph) return;
  flame.pending = requestAnimationFrame(() => {
    flame.pending = 0;
    paintNow(flame);
  });
}

/** @param {Flame} flame */
function paintNow(flame) {
  const { canvas, data, graph, root, focus, query, theme } = flame;
  if (!graph) return;
  flame.width = Math.max(flame.host.clientWidth || flame.width, 160);
  flame.boxes = layoutBoxes(graph, root, flame.width);
  const textOf = (/** @type {number} */ node) => nodeText(data, graph.tree, node);
  paintFlame(canvas, flame.boxes, { graph, root, focus, query, theme, width: flame.width, textOf });
}

/**
 * @param {Flame} flame
 * @param {number} node
 */
function zoomToNode(flame, node) {
  const { graph } = flame;
  flame.root = node;
  flame.reset.hidden = node === 0;
  flame.tip.hidden = true;
  requestPaint(flame);
  if (!node || !graph) {
    flame.options.onZoom(null);
    return;
  }
  const inside = Uint8Array.from(graph.tree.leaf, (leaf) => (isDescendant(graph.tree, leaf, node) ? 1 : 0));
  flame.options.onZoom((stack) => stack >= 0 && inside[stack] === 1);
}

/**
 * Whether `node` is `ancestor` or below it.
 *
 * @param {StackTree} tree
 * @param {number} node
 * @param {number} ancestor
 */
function isDescendant({ parent }, node, ancestor) {
  for (let k = node; k >= 0; k = parent[k]) if (k === ancestor) return true;
  return false;
}

/**
 * @param {Flame} flame
 * @param {string} text
 */
function searchStacks(flame, text) {
  flame.query = text.trim().toLowerCase();
  requestPaint(flame);
  flame.found.textContent = flame.query && flame.graph ? matchText(flame, flame.graph) : "";
}

/**
 * What the search found. Only the outermost of nested matches counts, so that no byte counts twice.
 *
 * @param {Flame} flame
 * @param {FlameGraph} graph
 */
function matchText({ data, query }, { tree, sums }) {
  const isHit = tree.parent.map((_, k) => k > 0 && nodeText(data, tree, k).toLowerCase().includes(query));
  const isInside = new Uint8Array(tree.parent.length);
  let [bytes, num] = [0, 0];
  for (let k = 1; k < tree.parent.length; k++) {
    isInside[k] = isInside[tree.parent[k]] || isHit[tree.parent[k]] ? 1 : 0;
    if (!isHit[k] || isInside[k]) continue;
    bytes += sums.bytes[k];
    num += sums.num[k];
  }
  return num ? amountText(sums, bytes, num) : "nothing fits";
}

/**
 * @param {StackSums} sums
 * @param {number} bytes
 * @param {number} num
 */
function amountText(sums, bytes, num) {
  const share = sums.bytes[0] ? (100 * bytes) / sums.bytes[0] : 0;
  return `${formatBytes(bytes)} (${formatPercent(share)}) in ${formatPlural(num, "block")}`;
}

/** @param {Flame} flame */
function listenToFlame(flame) {
  const { canvas, tip, input } = flame;
  flame.reset.addEventListener("click", () => zoomToNode(flame, 0));
  input.addEventListener("input", () => searchStacks(flame, input.value));
  canvas.addEventListener("click", (event) => {
    const box = boxAt(flame, event);
    if (box) zoomToNode(flame, box.node);
  });
  canvas.addEventListener("pointermove", (event) => showTip(flame, event));
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("keydown", (event) => {
    if (!flame.graph || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!pressed(flame, flame.graph, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}

/**
 * @param {Flame} flame
 * @param {MouseEvent} event
 */
function boxAt({ canvas, boxes }, event) {
  const place = canvas.getBoundingClientRect();
  const [x, row] = [event.clientX - place.left, Math.floor((event.clientY - place.top) / ROW_HEIGHT)];
  return boxes.find((box) => box.row === row && box.x <= x && x < box.x + Math.max(box.width, 1));
}

/**
 * @param {Flame} flame
 * @param {MouseEvent} event
 */
function showTip(flame, event) {
  const { tip, graph, stage } = flame;
  const box = boxAt(flame, event);
  tip.hidden = !box;
  if (!box || !graph) return;
  tip.replaceChildren(...describeNode(flame, graph, box.node).map((line) => element("div", {}, line)));
  const place = stage.getBoundingClientRect();
  tip.style.left = `${Math.max(Math.min(event.clientX - place.left + 12, flame.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${event.clientY - place.top + 16}px`;
}

/**
 * @param {Flame} flame
 * @param {FlameGraph} graph
 * @param {number} node
 */
function describeNode({ data }, { tree, sums }, node) {
  const file = node ? data.stacks.frameAt(tree.frame[node]).file : "";
  return [nodeText(data, tree, node), amountText(sums, sums.bytes[node], sums.num[node]), file].filter(Boolean);
}

/**
 * The node that an arrow key moves to: up to the caller, down to the largest callee, left and right among the callees
 * of one caller. Null for other keys.
 *
 * @param {Flame} flame
 * @param {FlameGraph} graph
 * @param {string} key
 * @returns {number | null}
 */
function nodeOfKey({ boxes, focus }, { tree }, key) {
  const box = boxes.find(({ node }) => node === focus) ?? boxes[0];
  const row = boxes.filter((one) => one.row === box.row).sort((a, b) => a.x - b.x);
  const beside = (/** @type {number} */ by) => row[Math.min(Math.max(row.indexOf(box) + by, 0), row.length - 1)].node;
  if (key === "ArrowUp") return Math.max(tree.parent[box.node], 0);
  if (key === "ArrowLeft") return beside(-1);
  if (key === "ArrowRight") return beside(1);
  if (key !== "ArrowDown") return null;
  const callees = boxes.filter(({ node }) => tree.parent[node] === box.node).sort((a, b) => b.width - a.width);
  return callees.length ? callees[0].node : box.node;
}

/**
 * @param {Flame} flame
 * @param {FlameGraph} graph
 * @param {string} key
 * @returns {boolean} Whether the key has a meaning.
 */
function pressed(flame, graph, key) {
  const next = nodeOfKey(flame, graph, key);
  if (next !== null) {
    flame.focus = flame.focus < 0 ? flame.boxes[0].node : next;
    flame.spoken.textContent = describeNode(flame, graph, flame.focus).join(", ");
    requestPaint(flame);
  } else if ((key === "Enter" || key === " ") && flame.focus >= 0) zoomToNode(flame, flame.focus);
  else if (key === "Escape" && flame.root) zoomToNode(flame, 0);
  else return false;
  return true;
}
