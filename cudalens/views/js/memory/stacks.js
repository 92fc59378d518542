// Call stacks as one tree, and what was allocated at and beneath each of its nodes.

// The tree of all stacks, outermost first: parent, frame and depth of each node (node 0 is the root), the node of each stack.
export function mmStackTree(stacks) {
  const tree = { parent: [-1], frame: [-1], depth: [0], leaf: new Int32Array(stacks.n) };
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

// Bytes and blocks of every node and what is beneath it, of the `chosen` lives.
export function mmStackSums(tree, lives, chosen) {
  const n = tree.parent.length;
  const [bytes, num] = [new Float64Array(n), new Float64Array(n)];
  for (const i of chosen) {
    const at = lives.stack[i] < 0 ? 0 : tree.leaf[lives.stack[i]];
    bytes[at] += lives.bytes[i];
    num[at] += 1;
  }
  // A child always comes after its parent.
  for (let k = n - 1; k > 0; k--) {
    bytes[tree.parent[k]] += bytes[k];
    num[tree.parent[k]] += num[k];
  }
  return { bytes, num };
}

// Numbers of the callees of each node.
export function mmChildren(tree) {
  const children = tree.parent.map(() => []);
  for (let k = 1; k < tree.parent.length; k++) children[tree.parent[k]].push(k);
  return children;
}
