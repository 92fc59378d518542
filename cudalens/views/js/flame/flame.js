// A flame graph as an icicle: the outermost caller on top, each node as wide as its weight and that of all below it. A
// click makes a node as wide as the view; the search marks matches. Bytes by call stack and time by call path use it.

import { element } from "../shared/dom.js";
import { formatPercent } from "../shared/format.js";
import { layoutBoxes, MAX_HEIGHT, paintFlame, ROW_HEIGHT } from "./draw.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { FlameBox } from "./draw.js" */

/**
 * A tree with weights. Node 0 is the root; a child comes after its parent.
 *
 * @typedef {object} FlameGraph
 * @property {ArrayLike<number>} parent
 * @property {ArrayLike<number>} depth
 * @property {number[][]} children
 * @property {Float64Array} weight Of each node and all below it.
 * @property {Float64Array} num How many blocks or calls that is.
 * @property {Float64Array} [before] The weights of another run, to compare with.
 */

/**
 * @typedef {object} FlameOptions
 * @property {ThemeName} theme
 * @property {string} label For screen readers.
 * @property {string} placeholder Of the search.
 * @property {string} searchLabel
 * @property {(node: number) => string} textOf
 * @property {(weight: number, num: number) => string} amountOf
 * @property {(weight: number) => string} format
 * @property {(node: number) => string[]} [notesOf] More lines of the tooltip.
 * @property {(node: number, text: string, theme: ThemeName) => [fill: string, ink: string]} [colorOf]
 * @property {(node: number) => void} onZoom The node is 0 where the whole graph shows.
 */

/**
 * @typedef {object} Flame
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
 * @property {(graph: FlameGraph) => void} show
 * @property {(node: number) => void} zoom
 * @property {(text: string) => void} search
 * @property {FlameGraph | null} graph
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
 * @param {FlameOptions} options
 * @returns {FlameView}
 */
export function createFlame(host, options) {
  const flame = createState(host, options);
  const tools = element("div", { class: "mm-tools" }, flame.input, flame.reset, flame.found);
  host.replaceChildren(tools, flame.stage, flame.spoken);
  listenToFlame(flame);
  return {
    show(graph) {
      if (flame.graph?.parent !== graph.parent) Object.assign(flame, { root: 0, focus: -1 });
      flame.graph = graph;
      flame.reset.hidden = flame.root === 0;
      if (flame.query) searchNodes(flame, flame.input.value);
      requestPaint(flame);
    },
    zoom: (node) => zoomToNode(flame, node),
    search(text) {
      flame.input.value = text;
      searchNodes(flame, text);
    },
    get graph() {
      return flame.graph;
    },
    get root() {
      return flame.root;
    },
    boxes: () => flame.boxes,
    textOf: (node) => (flame.graph ? options.textOf(node) : ""),
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
 * @param {FlameOptions} options
 * @returns {Flame}
 */
function createState(host, options) {
  const canvas = element("canvas", {
    class: "mm-flame-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": `${options.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,
    "data-lm-suppress-shortcuts": "true",
  });
  const scroller = element("div", { class: "mm-flame-scroll" }, canvas);
  scroller.style.maxHeight = `${MAX_HEIGHT}px`;
  const tip = element("div", { class: "mm-tip", hidden: true });
  return {
    options,
    host,
    input: element("input", {
      type: "search",
      class: "mm-search",
      placeholder: options.placeholder,
      "aria-label": options.searchLabel,
      "data-lm-suppress-shortcuts": "true",
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
  const { canvas, options, graph, root, focus, query, theme } = flame;
  if (!graph) return;
  flame.width = Math.max(flame.host.clientWidth || flame.width, 160);
  flame.boxes = layoutBoxes(graph, root, flame.width);
  paintFlame(canvas, flame.boxes, { graph, root, focus, query, theme, width: flame.width, options });
}

/**
 * @param {Flame} flame
 * @param {number} node
 */
function zoomToNode(flame, node) {
  flame.root = node;
  flame.reset.hidden = node === 0;
  flame.tip.hidden = true;
  requestPaint(flame);
  flame.options.onZoom(node);
}

/**
 * @param {Flame} flame
 * @param {string} text
 */
function searchNodes(flame, text) {
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
function matchText({ options, query }, graph) {
  const n = graph.parent.length;
  const [isHit, isInside] = [new Uint8Array(n), new Uint8Array(n)];
  let [weight, num] = [0, 0];
  for (let k = 1; k < n; k++) {
    const up = graph.parent[k];
    isHit[k] = options.textOf(k).toLowerCase().includes(query) ? 1 : 0;
    isInside[k] = isInside[up] || isHit[up] ? 1 : 0;
    if (!isHit[k] || isInside[k]) continue;
    weight += graph.weight[k];
    num += graph.num[k];
  }
  return num ? amountText(options, graph, weight, num) : "nothing fits";
}

/**
 * @param {FlameOptions} options
 * @param {FlameGraph} graph
 * @param {number} weight
 * @param {number} num
 */
function amountText(options, graph, weight, num) {
  const share = graph.weight[0] ? (100 * weight) / graph.weight[0] : 0;
  return options.amountOf(weight, num).replace("%", formatPercent(share));
}

/** @param {Flame} flame */
function listenToFlame(flame) {
  const { canvas, tip, input } = flame;
  flame.reset.addEventListener("click", () => zoomToNode(flame, 0));
  input.addEventListener("input", () => searchNodes(flame, input.value));
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
function describeNode({ options }, graph, node) {
  const lines = [options.textOf(node), amountText(options, graph, graph.weight[node], graph.num[node])];
  if (graph.before) {
    const change = graph.weight[node] - graph.before[node];
    lines.push(`${change < 0 ? "−" : "+"}${options.format(Math.abs(change))} against the other run`);
  }
  return [...lines, ...(options.notesOf?.(node) ?? [])].filter(Boolean);
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
function nodeOfKey({ boxes, focus }, { parent }, key) {
  const box = boxes.find(({ node }) => node === focus) ?? boxes[0];
  const row = boxes.filter((one) => one.row === box.row).sort((a, b) => a.x - b.x);
  const beside = (/** @type {number} */ by) => row[Math.min(Math.max(row.indexOf(box) + by, 0), row.length - 1)].node;
  if (key === "ArrowUp") return Math.max(parent[box.node], 0);
  if (key === "ArrowLeft") return beside(-1);
  if (key === "ArrowRight") return beside(1);
  if (key !== "ArrowDown") return null;
  const callees = boxes.filter(({ node }) => parent[node] === box.node).sort((a, b) => b.width - a.width);
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
