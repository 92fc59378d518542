// Another run beside a flame graph: the weights of its call paths, which cudalens/views/timeline/readings.py sends.

/** @import { CallPaths } from "./paths.js" */

/**
 * Call paths of another run, each after its parent.
 *
 * @typedef {object} Baseline
 * @property {string} name Of the run.
 * @property {number[]} parent -1 for a root.
 * @property {string[]} label
 * @property {{ [weight: string]: number[] }} self Weight of each path itself.
 */

/**
 * Adds the paths of the other run to `paths`, and its weights by node as `paths.before`.
 *
 * @param {CallPaths} paths
 * @param {Baseline} other
 */
export function addBaseline(paths, other) {
  const nodes = nodesOf(paths, other);
  /** @type {{ [weight: string]: Float64Array }} */
  const before = {};
  for (const [weight, self] of Object.entries(other.self)) {
    const sums = new Float64Array(paths.parent.length);
    self.forEach((value, k) => {
      sums[nodes[k]] += value;
    });
    for (let k = sums.length - 1; k > 0; k--) sums[paths.parent[k]] += sums[k];
    before[weight] = sums;
  }
  paths.before = before;
}

/**
 * The node of each path of the other run; paths that this run lacks become nodes without a weight.
 *
 * @param {CallPaths} paths
 * @param {Baseline} other
 */
function nodesOf(paths, { parent, label }) {
  /** @type {Map<string, number>} */
  const known = new Map();
  for (let k = 1; k < paths.parent.length; k++) {
    known.set(`${paths.parent[k]} ${paths.labels[paths.label[k]]}`, k);
  }
  /** @type {number[]} */
  const nodes = [];
  parent.forEach((above, k) => {
    const from = above < 0 ? 0 : nodes[above];
    const key = `${from} ${label[k]}`;
    const node = known.get(key) ?? addNode(paths, from, label[k]);
    known.set(key, node);
    nodes.push(node);
  });
  return nodes;
}

/**
 * @param {CallPaths} paths
 * @param {number} parent
 * @param {string} text
 */
function addNode(paths, parent, text) {
  const node = paths.parent.length;
  paths.parent.push(parent);
  paths.depth.push(paths.depth[parent] + 1);
  paths.label.push(paths.labels.push(text) - 1);
  paths.sample.push(-1);
  paths.children.push([]);
  paths.children[parent].push(node);
  return node;
}
