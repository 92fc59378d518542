// Group allocations by what holds them, and name the groups.

import { stackFrameText } from "./data.js";

/** @import { BlockFacts, MemoryData, Pool, StackFrame } from "./data.js" */

/** @typedef {"category" | "stack" | "pool" | "names" | "cell"} Grouping */
/** @typedef {{ key: string | number, label: string, bytes: number, num: number }} Group */

/** @type {[Grouping, string][]} */
const GROUPINGS = [
  ["category", "category"],
  ["stack", "call stack"],
  ["pool", "pool and stream"],
  ["names", "variable"],
  ["cell", "cell"],
];

/** @param {Pool} pool */
export function poolText({ stream, pool, graphs }) {
  const [first, second] = pool;
  const isDefault = !first && !second;
  const which = isDefault ? "default pool" : `private pool (${first ?? "?"}, ${second ?? "?"})`;
  const of = graphs.length ? ` of ${graphs.join(", ")}` : "";
  return `${which}${of}, stream ${stream ?? "not recorded"}`;
}

/**
 * The most informative stack frame of a stack: the innermost one of Python code outside of torch.
 *
 * @param {MemoryData} data
 * @param {number} stack
 */
export function stackLabel({ stacks }, stack) {
  if (stack < 0) return "stack not recorded";
  const frames = [...stacks.idsOf(stack)].map(stacks.frameAt);
  const chosen = frames.find(isUserCode) ?? frames.find(({ file }) => file.endsWith(".py")) ?? frames[0];
  return chosen ? stackFrameText(chosen) : "stack not recorded";
}

/** @param {StackFrame} frame */
function isUserCode({ file, name }) {
  const isPython = file.endsWith(".py") || file.startsWith("In[") || file.startsWith("<");
  return isPython && !/[\\/](torch|site-packages|dist-packages)[\\/]/.test(file) && name !== "";
}

/**
 * The groupings that this snapshot has data for.
 *
 * @param {MemoryData} data
 */
export function groupingsOf({ facts }) {
  const isKnown = (/** @type {"names" | "cell"} */ name) => facts.some((one) => name in one);
  return GROUPINGS.filter(([key]) => (key !== "names" && key !== "cell") || isKnown(key));
}

/**
 * @param {MemoryData} data
 * @param {number} allocation
 * @returns {BlockFacts}
 */
export function factsOf({ allocations, facts }, allocation) {
  const place = allocations.facts[allocation];
  return place ? facts[place - 1] : {};
}

/**
 * The names of the variables that hold a block.
 *
 * @param {MemoryData} data
 * @param {number} allocation
 * @returns {string[]}
 */
export function variableNames(data, allocation) {
  const { names } = factsOf(data, allocation);
  if (!names) return [];
  try {
    return JSON.parse(names).map(String);
  } catch {
    return [names];
  }
}

/**
 * The group of an allocation.
 *
 * @param {MemoryData} data
 * @param {number} allocation
 * @param {Grouping} by
 * @returns {string | number}
 */
export function groupKey(data, allocation, by) {
  if (by === "names") return variableNames(data, allocation)[0] ?? "";
  if (by === "cell") return factsOf(data, allocation).cell ?? "";
  return data.allocations[by][allocation];
}

/**
 * @param {MemoryData} data
 * @param {string | number} key
 * @param {Grouping} by
 */
function groupLabel(data, key, by) {
  const { categories, pools } = data.header;
  if (by === "names") return String(key) || "no variable";
  if (by === "cell") return String(key) || "not recorded";
  const place = Number(key);
  if (by === "stack") return stackLabel(data, place);
  if (by === "pool") return poolText(pools[place]);
  return place ? categories[place - 1] : "not known";
}

/**
 * Sums of `chosen` by group, most bytes first.
 *
 * @param {MemoryData} data
 * @param {Iterable<number>} chosen Indices of allocations.
 * @param {Grouping} by
 * @returns {Group[]}
 */
export function groupAllocations(data, chosen, by) {
  /** @type {Map<string | number, Group>} */
  const found = new Map();
  for (const i of chosen) {
    const key = groupKey(data, i, by);
    const group = found.get(key) ?? { key, label: groupLabel(data, key, by), bytes: 0, num: 0 };
    group.bytes += data.allocations.bytes[i];
    group.num += 1;
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}
