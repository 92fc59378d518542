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
  const children = tree ? childrenOf(tree) : [];
  const frameOf = (/** @type {number} */ node) => (node && tree ? data.stacks.frameAt(tree.frame[node]) : null);
  const view = createFlame(host, {
    theme: options.theme,
    label: "Bytes by call stack",
    placeholder: "Search functions and files",
    searchLabel: "Search call stacks",
    textOf(node) {
      const frame = frameOf(node);
      return frame ? stackFrameText(frame) : "all";
    },
    amountOf: (bytes, num) => `${formatBytes(bytes)} (%) in ${formatPlural(num, "block")}`,
    format: formatBytes,
    notesOf: (node) => [frameOf(node)?.file ?? ""],
    onZoom: (node) => options.onZoom(node && tree ? insideOf(tree, node) : null),
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
      if (!tree) return;
      const { bytes, num } = stackSums(tree, data.allocations, chosen);
      view.show({ parent: tree.parent, depth: tree.depth, children, weight: bytes, num });
    },
  };
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
