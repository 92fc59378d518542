// Call stacks as one tree, and what was allocated at each of its nodes and their descendants.

/** @import { Allocations, Stacks } from "./data.js" */

/**
 * The tree of all stacks, outermost first. Node 0 is the root.
 *
 * @typedef {object} StackTree
 * @property {number[]} parent
 * @property {number[]} frame Id of the stack frame.
 * @property {number[]} depth
 * @property {Int32Array} leaf Node of each stack.
 */

/** @typedef {{ bytes: Float64Array, num: Float64Array }} StackSums By node. */

/**
 * @param {Stacks} stacks
 * @returns {StackTree}
 */
export function stackTree(stacks) {
  /** @type {StackTree} */
  const tree = { parent: [-1], frame: [-1], depth: [0], leaf: new Int32Array(stacks.n) };
  /** @type {Map<number, number>} */
  const known = new Map();
  for (let k = 0; k < stacks.n; k++) {
    const ids = stacks.idsOf(k);
    let at = 0;
    for (let j = ids.length - 1; j >= 0; j--) {
      const key = at * stacks.numFrames + ids[j];
      let next = known.get(key);
      if (next === undefined) {
        next = tree.parent.length;
        known.set(key, next);
        tree.parent.push(at);
        tree.frame.push(ids[j]);
        tree.depth.push(tree.depth[at] + 1);
      }
      at = next;
    }
    tree.leaf[k] = at;
  }
  return tree;
}

/**
 * Bytes and blocks of every node and its descendants.
 *
 * @param {StackTree} tree
 * @param {Allocations} allocations
 * @param {Iterable<number>} chosen Indices of allocations.
 * @returns {StackSums}
 */
export function stackSums(tree, allocations, chosen) {
  const n = tree.parent.length;
  const [bytes, num] = [new Float64Array(n), new Float64Array(n)];
  for (const i of chosen) {
    const at = allocations.stack[i] < 0 ? 0 : tree.leaf[allocations.stack[i]];
    bytes[at] += allocations.bytes[i];
    num[at] += 1;
  }
  // A child always comes after its parent.
  for (let k = n - 1; k > 0; k--) {
    bytes[tree.parent[k]] += bytes[k];
    num[tree.parent[k]] += num[k];
  }
  return { bytes, num };
}

/**
 * Numbers of the callees of each node.
 *
 * @param {StackTree} tree
 */
export function childrenOf(tree) {
  /** @type {number[][]} */
  const children = tree.parent.map(() => []);
  for (let k = 1; k < tree.parent.length; k++) children[tree.parent[k]].push(k);
  return children;
}
