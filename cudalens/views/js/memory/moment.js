// What a device held at one moment: blocks and segments by address, gaps, and sums of them.

import { mmFrameText } from "./data.js";

// The strips of memory that the allocator had at `row`, by address; neighbours of one expandable segment are one strip.
function mmStripsAt(pieces, device, row) {
  const strips = [];
  for (let i = 0; i < pieces.n; i++) {
    if (pieces.device[i] !== device || pieces.added[i] > row || pieces.removed[i] <= row) continue;
    const [addr, bytes, pool, kind] = [pieces.addr[i], pieces.bytes[i], pieces.pool[i], pieces.kind[i]];
    const last = strips.at(-1);
    if (last && pieces.grows[i] && last.grows && last.pool === pool && last.addr + last.bytes === addr) last.bytes += bytes;
    else strips.push({ addr, bytes, pool, kind, grows: pieces.grows[i] });
  }
  return strips;
}

function mmAliveAt(lives, device, row) {
  const found = new Int32Array(lives.n);
  let n = 0;
  for (let k = 0; k < lives.n; k++) {
    const i = lives.byAddress[k];
    if (lives.alloc[i] <= row && row < lives.done[i] && lives.device[i] === device) found[n++] = i;
  }
  return found.slice(0, n);
}

/**
 * What `device` held after `row`.
 *
 * @returns {object} lives: indices of what was active, by address; strips: [{addr, bytes, pool, kind, first, end, used}],
 *   by address, with the range of `lives` that stand in each; outside: how many stand in none; sums in bytes.
 */
export function mmMoment(data, device, row) {
  const { lives } = data;
  const alive = mmAliveAt(lives, device, row);
  const strips = mmStripsAt(data.pieces, device, row);
  const sums = { reserved: 0, active: 0, allocated: 0, pending: 0, internal: 0, external: 0, empty: 0, largest: 0 };
  let k = 0;
  let placed = 0;
  for (const strip of strips) {
    while (k < alive.length && lives.addr[alive[k]] < strip.addr) k++;
    strip.first = k;
    strip.used = 0;
    let at = strip.addr;
    let largest = 0;
    for (; k < alive.length && lives.addr[alive[k]] < strip.addr + strip.bytes; k++) {
      const i = alive[k];
      largest = Math.max(largest, lives.addr[i] - at);
      at = lives.addr[i] + lives.bytes[i];
      strip.used += lives.bytes[i];
    }
    largest = Math.max(largest, strip.addr + strip.bytes - at);
    strip.end = k;
    placed += strip.end - strip.first;
    sums.reserved += strip.bytes;
    sums.largest = Math.max(sums.largest, largest);
    const free = Math.max(strip.bytes - strip.used, 0);
    sums[strip.used ? "external" : "empty"] += free;
  }
  for (const i of alive) {
    sums.active += lives.bytes[i];
    if (lives.released[i] <= row) sums.pending += lives.bytes[i];
    else sums.allocated += lives.bytes[i];
    if (!Number.isNaN(lives.requested[i])) sums.internal += lives.bytes[i] - lives.requested[i];
  }
  // At the end the snapshot itself tells what is free, and of blocks without an address too.
  const told = data.header.devices[device];
  if (row === data.numRows - 1) {
    Object.assign(sums, told.end ?? {}, { allocated: told.allocated_bytes, active: told.active_bytes, reserved: told.reserved_bytes });
    sums.pending = sums.active - sums.allocated;
  }
  return { device, row, lives: alive, strips, sums, outside: alive.length - placed };
}

export function mmPoolText({ stream, pool, graphs }) {
  const [first, second] = pool;
  const isDefault = !first && !second;
  const which = isDefault ? "default pool" : `private pool (${first ?? "?"}, ${second ?? "?"})`;
  const of = graphs.length ? ` of ${graphs.join(", ")}` : "";
  return `${which}${of}, stream ${stream ?? "not recorded"}`;
}

// The stack frame that says most of a stack: the innermost one of Python code that is not torch's own.
export function mmStackLabel(data, stack) {
  if (stack < 0) return "stack not recorded";
  const ids = [...data.stacks.idsOf(stack)];
  const frames = ids.map((id) => data.stacks.frameAt(id));
  const isOwn = ({ file, name }) => (file.endsWith(".py") || file.startsWith("In[") || file.startsWith("<")) &&
    !/[\\/](torch|site-packages|dist-packages)[\\/]/.test(file) && name !== "";
  const chosen = frames.find(isOwn) ?? frames.find(({ file }) => file.endsWith(".py")) ?? frames[0];
  return chosen ? mmFrameText(chosen) : "stack not recorded";
}

// What holders can be told apart by, as far as this snapshot tells.
export function mmGroupings(data) {
  const isTold = (name) => data.told.some((facts) => name in facts);
  return Object.entries({ category: "category", stack: "call stack", pool: "pool and stream", names: "variable", cell: "cell" })
    .filter(([key]) => !["names", "cell"].includes(key) || isTold(key));
}

export const mmTold = (data, life) => (data.lives.told[life] ? data.told[data.lives.told[life] - 1] : {});

// The names of the variables that hold a block.
export function mmNames(data, life) {
  const { names } = mmTold(data, life);
  if (!names) return [];
  try {
    return JSON.parse(names).map(String);
  } catch {
    return [names];
  }
}

// What `by` tells of a life: equal keys are one row of a table.
export function mmKeyOf(data, life, by) {
  if (by === "names") return mmNames(data, life)[0] ?? "";
  if (by === "cell") return mmTold(data, life).cell ?? "";
  return data.lives[by][life];
}

// Sums of `chosen` (indices of lives) by a key: [{key, label, bytes, num}], most bytes first.
export function mmGrouped(data, chosen, by) {
  const { lives, header } = data;
  const found = new Map();
  for (const i of chosen) {
    const key = mmKeyOf(data, i, by);
    const sum = found.get(key) ?? { key, bytes: 0, num: 0 };
    sum.bytes += lives.bytes[i];
    sum.num += 1;
    found.set(key, sum);
  }
  const labels = {
    category: (key) => (key ? header.categories[key - 1] : "unknown"),
    stack: (key) => mmStackLabel(data, key),
    pool: (key) => mmPoolText(header.pools[key]),
    names: (key) => key || "no variable that is known",
    cell: (key) => key || "not recorded",
  };
  return [...found.values()].map((sum) => ({ ...sum, label: labels[by](sum.key) })).sort((a, b) => b.bytes - a.bytes);
}
