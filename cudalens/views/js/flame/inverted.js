// Call paths from the inside out: each kernel or call, then who calls it.

/** @import { CallPaths } from "./paths.js" */

const MAX_CALLERS = 64;

/**
 * The call paths `paths` from the other end: the first level has what an event itself is, the levels below its callers.
 * Each event belongs to the end of its chain, so that sums over the nodes below a node are those of all calls of it.
 *
 * @param {CallPaths} paths
 * @returns {CallPaths}
 */
export function invertPaths(paths) {
  const { labels, nodeOf } = paths;
  /** @type {CallPaths} */
  const inverted = { parent: [-1], depth: [0], label: [-1], labels, sample: [-1], nodeOf, children: [[]] };
  /** @type {Map<string, number>} */
  const known = new Map();
  const ends = new Int32Array(paths.parent.length);
  for (let k = 1; k < ends.length; k++) {
    let at = 0;
    let number = 0;
    for (let above = k; above > 0 && number < MAX_CALLERS; above = paths.parent[above], number++) {
      at = stepTo(inverted, known, at, paths.label[above], number ? -1 : paths.sample[k]);
    }
    ends[k] = at;
  }
  inverted.nodeOf = nodeOf.map((node) => (node > 0 ? ends[node] : node));
  if (paths.before) inverted.before = invertWeights(paths, inverted, ends, paths.before);
  return inverted;
}

/**
 * @param {CallPaths} inverted
 * @param {Map<string, number>} known
 * @param {number} from
 * @param {number} label
 * @param {number} sample
 */
function stepTo(inverted, known, from, label, sample) {
  const key = `${from} ${label}`;
  let node = known.get(key);
  if (node === undefined) {
    node = inverted.parent.length;
    known.set(key, node);
    inverted.parent.push(from);
    inverted.depth.push(inverted.depth[from] + 1);
    inverted.label.push(label);
    inverted.sample.push(sample);
    inverted.children.push([]);
    inverted.children[from].push(node);
  }
  if (inverted.sample[node] < 0) inverted.sample[node] = sample;
  return node;
}

/**
 * The weights of another run, of each node itself, at the ends of the inverted paths.
 *
 * @param {CallPaths} paths
 * @param {CallPaths} inverted
 * @param {Int32Array} ends The node of `inverted` at which the chain of each node ends.
 * @param {{ [weight: string]: Float64Array }} before
 */
function invertWeights(paths, inverted, ends, before) {
  /** @type {{ [weight: string]: Float64Array }} */
  const found = {};
  for (const [weight, sums] of Object.entries(before)) {
    const own = sums.slice();
    for (let k = 1; k < own.length; k++) own[paths.parent[k]] -= sums[k];
    const turned = new Float64Array(inverted.parent.length);
    for (let k = 0; k < own.length; k++) turned[ends[k]] += own[k];
    for (let k = turned.length - 1; k > 0; k--) turned[inverted.parent[k]] += turned[k];
    found[weight] = turned;
  }
  return found;
}
