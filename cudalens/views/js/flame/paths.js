// Call paths: the node of a flame graph that each event belongs to, by the definition of cudalens.analysis.flame_graph.

import { EVENT_FLAGS } from "../payload/derive.js";
import { shortName } from "../payload/payload.js";

/** @import { TraceData } from "../payload/payload.js" */

/** @typedef {"tree" | "python" | "stack" | "module"} Grouping */

/**
 * Node 0 is the root; a child comes after its parent.
 *
 * @typedef {object} CallPaths
 * @property {number[]} parent
 * @property {number[]} depth
 * @property {number[]} label Index into `labels`.
 * @property {string[]} labels The names of the trace, then those of stack frames and modules.
 * @property {number[]} sample An event of each node, -1 for none.
 * @property {Int32Array} nodeOf Node of each event, -1 for none.
 * @property {number[][]} children
 * @property {{ [weight: string]: Float64Array }} [before] Weights of another run, by node.
 */

const DEVICE_CATS = new Set(["kernel", "gpu_memcpy", "gpu_memset"]);

/**
 * What the events of a trace can be grouped by.
 *
 * @param {TraceData} data
 * @returns {[Grouping, string][]}
 */
export function groupingsOf(data) {
  const has = (/** @type {string} */ name) => data.header.details.some((column) => column.name === name);
  /** @type {[Grouping, string, boolean][]} */
  const all = [
    ["tree", "call tree", true],
    ["python", "Python", data.header.cats.includes("python_function")],
    ["stack", "call stacks", has("stack")],
    ["module", "modules", has("module")],
  ];
  return all.flatMap(([key, text, isKnown]) => (isKnown ? [[key, text]] : []));
}

/**
 * @param {TraceData} data
 * @param {Grouping} by
 * @returns {CallPaths}
 */
export function callPaths(data, by) {
  const tree = createTree(data);
  const { n, header } = data;
  const isDeviceLane = header.lanes.map(({ kind }) => kind === "device");
  const startOf = by === "stack" || by === "module" ? chainsOf(tree, data, by) : null;
  const isPython = header.cats.map((cat) => cat === "python_function");
  const isTrace = header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < n; i++) {
    if (isDeviceLane[data.lane[i]] || isTrace[data.cat[i]]) continue;
    const own = startOf ? startOf(i) : -1;
    const above = data.parent[i] < 0 ? -1 : tree.nodeOf[data.parent[i]];
    const from = own >= 0 ? own : above >= 0 ? above : startOf ? tree.none : 0;
    tree.nodeOf[i] = by === "python" && !isPython[data.cat[i]] ? from : tree.add(from, tree.labelOf[data.name[i]], i);
  }
  const isWork = header.cats.map((cat) => DEVICE_CATS.has(cat));
  for (let i = 0; i < n; i++) {
    if (!isDeviceLane[data.lane[i]] || !isWork[data.cat[i]] || data.flags[i] & EVENT_FLAGS.instant) continue;
    const call = data.launch[i];
    const unknown = startOf ? tree.add(0, tree.text("(no launch)"), -1) : 0;
    const from = call < 0 ? unknown : Math.max(tree.nodeOf[call], 0);
    tree.nodeOf[i] = tree.add(from, tree.labelOf[data.name[i]], i);
  }
  const { parent, depth, label, labels, sample, nodeOf } = tree;
  return { parent, depth, label, labels, sample, nodeOf, children: childrenOf(parent) };
}

/**
 * A tree that grows, with node 0 alone.
 *
 * @param {TraceData} data
 */
function createTree(data) {
  const labels = [...data.header.names];
  const [steps, first] = [new Set(data.header.step_names), labels.length];
  if (steps.size) labels.push("ProfilerStep*");
  /** @type {Map<number, number>} */
  const known = new Map();
  /** @type {Map<string, number>} */
  const texts = new Map();
  const stride = 2 ** 24;
  const tree = {
    parent: [-1],
    depth: [0],
    label: [-1],
    sample: [-1],
    labels,
    labelOf: data.header.names.map((_, id) => (steps.has(id) ? first : id)),
    nodeOf: new Int32Array(data.n).fill(-1),
    none: 0,
    /**
     * Label of a text that is not a name of the trace.
     *
     * @param {string} text
     */
    text(text) {
      const at = texts.get(text) ?? labels.push(text) - 1;
      texts.set(text, at);
      return at;
    },
    /**
     * @param {number} parent
     * @param {number} label
     * @param {number} event An example; -1 for none.
     */
    add(parent, label, event) {
      const key = parent * stride + label;
      let node = known.get(key);
      if (node === undefined) {
        node = tree.parent.length;
        known.set(key, node);
        tree.parent.push(parent);
        tree.depth.push(tree.depth[parent] + 1);
        tree.label.push(label);
        tree.sample.push(event);
      }
      return node;
    },
  };
  return tree;
}

/**
 * The node of each event's recorded stack or module; -1 where none was recorded.
 *
 * @param {ReturnType<typeof createTree>} tree
 * @param {TraceData} data
 * @param {"stack" | "module"} by
 */
function chainsOf(tree, data, by) {
  tree.none = tree.add(0, tree.text(`(no ${by})`), -1);
  /** @type {Map<string, number>} */
  const chains = new Map();
  const read = data.detailOf(by);
  return (/** @type {number} */ i) => {
    const value = read(i);
    if (value === null) return -1;
    const text = String(value);
    let node = chains.get(text);
    if (node === undefined) {
      const parts = by === "stack" ? text.split("\n").reverse() : text.split(".");
      node = parts.filter(Boolean).reduce((above, part) => tree.add(above, tree.text(part), -1), 0);
      chains.set(text, node);
    }
    return node;
  };
}

/** @param {number[]} parent */
function childrenOf(parent) {
  /** @type {number[][]} */
  const children = parent.map(() => []);
  for (let k = 1; k < parent.length; k++) children[parent[k]].push(k);
  return children;
}

/**
 * @param {TraceData} data
 * @param {CallPaths} paths
 * @param {number} node
 */
export function textOfNode(data, { label, labels }, node) {
  if (!node) return "all";
  return label[node] < data.header.names.length ? shortName(data.header, label[node]) : labels[label[node]];
}
