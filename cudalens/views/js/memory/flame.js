// Bytes by call stack as a flame graph.

import { createFlame } from "../flame/flame.js";
import { formatBytes, formatPlural } from "../shared/format.js";
import { stackFrameText } from "./data.js";
import { childrenOf, stackSums, stackTree } from "./stacks.js";

/** @import { FlameView } from "../flame/flame.js" */
/** @import { ThemeName } from "../shared/theme.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { StackTree } from "./stacks.js" */

/**
 * @typedef {object} FlameOptions
 * @property {ThemeName} theme
 * @property {(isInside: ((stack: number) => boolean) | null) => void} onZoom With whether a stack is inside the node.
 */

/** @typedef {Omit<FlameView, "show"> & { show: (chosen: Iterable<number>) => void }} StackFlameView */

/**
 * Builds the flame graph in `host`.
 *
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {FlameOptions} options
 * @returns {StackFlameView}
 */
export function createFlameGraph(host, data, options) {
  const tree = data.stacks.n ? stackTree(data.stacks) : null;
  // Blocks without a call stack have a node of their own, the last one.
  const none = tree ? tree.parent.length : -1;
  const shown = tree ? { ...tree, parent: [...tree.parent, 0], depth: [...tree.depth, 1] } : null;
  const children = shown ? childrenOf(shown) : [];
  const frameOf = (/** @type {number} */ node) =>
    node && tree && node !== none ? data.stacks.frameAt(tree.frame[node]) : null;
  const view = createFlame(host, {
    theme: options.theme,
    label: "Bytes by call stack",
    placeholder: "Search functions and files",
    searchLabel: "Search call stacks",
    textOf(node) {
      const frame = frameOf(node);
      if (frame) return stackFrameText(frame);
      return node ? "no call stack" : "all";
    },
    amountOf: (bytes, num) => `${formatBytes(bytes)} (%) in ${formatPlural(num, "block")}`,
    format: formatBytes,
    notesOf: (node) => [frameOf(node)?.file ?? ""],
    onZoom(node) {
      if (!node || !tree) options.onZoom(null);
      else options.onZoom(node === none ? (stack) => stack < 0 : insideOf(tree, node));
    },
  });
  return {
    ...view,
    get root() {
      return view.root;
    },
    get graph() {
      return view.graph;
    },
    show(chosen) {
      if (!tree || !shown) return;
      const { bytes, num } = stackSums(tree, data.allocations, chosen);
      const { parent, depth } = shown;
      view.show({ parent, depth, children, weight: withRest(bytes, children[0]), num: withRest(num, children[0]) });
    },
  };
}

/**
 * The sums of all nodes, and last what the root has beyond its callees.
 *
 * @param {Float64Array} sums
 * @param {number[]} callees Of the root; the last one is the rest.
 */
function withRest(sums, callees) {
  const known = callees.slice(0, -1).reduce((sum, node) => sum + sums[node], 0);
  const all = new Float64Array(sums.length + 1);
  all.set(sums);
  all[sums.length] = sums[0] - known;
  return all;
}

/**
 * Whether a stack is inside a node of the tree.
 *
 * @param {StackTree} tree
 * @param {number} node
 */
function insideOf(tree, node) {
  const inside = Uint8Array.from(tree.leaf, (leaf) => (isDescendant(tree, leaf, node) ? 1 : 0));
  return (/** @type {number} */ stack) => stack >= 0 && inside[stack] === 1;
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
