// What is known about one event, as a list of terms.

import { shortName } from "../payload/payload.js";
import { element } from "../shared/dom.js";
import { formatBytes, formatCount, formatDuration } from "../shared/format.js";
import { SOURCE, sourcesOf } from "./sources.js";

/** @import { TimelineView } from "../timeline/timeline.js" */
/** @import { SelectionStore } from "./selection.js" */

/** @import { TraceData } from "../payload/payload.js" */

/** @typedef {[term: string, text: string]} Fact */

/**
 * Facts of event `i`, most important first.
 *
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function eventFacts(data, i) {
  const lane = data.header.lanes[data.lane[i]];
  /** @type {Fact[]} */
  const facts = [
    ["Kind", data.header.cats[data.cat[i]]],
    ["Start", formatDuration(data.start[i])],
    ["Duration", formatDuration(data.dur[i])],
  ];
  if (lane.kind === "host" && data.self[i] !== data.dur[i]) facts.push(["Self time", formatDuration(data.self[i])]);
  facts.push([lane.kind === "device" ? "Stream" : "Thread", lane.label]);
  if (data.launch[i] >= 0) facts.push(...launchFacts(data, i));
  facts.push(...detailFacts(data, i));
  facts.push(...callerFacts(data, i));
  facts.push(...missingFacts(data, i));
  facts.push(...sourceFacts(data, i));
  facts.push(["Row", `trace.events.iloc[${data.rowOf(i)}]`]);
  return facts;
}

/**
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function launchFacts(data, i) {
  const by = data.launch[i];
  return [
    ["Launched by", data.header.names[data.name[by]]],
    ["Waited", formatDuration(data.start[i] - data.start[by])],
  ];
}

const MAX_CALLERS = 60;

/**
 * The calls around an event, or around the call that launched it, innermost first; and the recorded stack there, where
 * the event has none of its own.
 *
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function callerFacts(data, i) {
  /** @type {Fact[]} */
  const facts = [];
  const stackOf = data.detailOf("stack");
  /** @type {string[]} */
  const lines = [];
  let stack = stackOf(i);
  const isOwn = stack !== null;
  for (let k = data.launch[i] >= 0 ? data.launch[i] : data.parent[i]; k >= 0; k = data.parent[k]) {
    stack ??= stackOf(k);
    if (lines.length < MAX_CALLERS) lines.push(shortName(data.header, data.name[k]));
  }
  if (stack !== null && !isOwn) facts.push(["Call stack", String(stack)]);
  if (lines.length) facts.push(["Called from", lines.join("\n")]);
  return facts;
}

/**
 * The lines of the user's cells beside the calls: of the event, or of the call that launched it.
 *
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function sourceFacts(data, i) {
  const stackOf = data.detailOf("stack");
  /** @type {string[]} */
  const calls = [];
  let stack = stackOf(i);
  for (let k = data.launch[i] >= 0 ? data.launch[i] : i; k >= 0; k = data.parent[k]) {
    stack ??= stackOf(k);
    calls.push(data.header.names[data.name[k]]);
  }
  return sourcesOf(data.header.cells, stack === null ? calls : String(stack).split("\n"));
}

/** @type {{ [column: string]: string }} */
const DETAIL_TERMS = {
  shapes: "Input shapes",
  dtypes: "Input dtypes",
  module: "Module",
  grid: "Grid",
  block_dim: "Block",
  registers: "Registers a thread",
  shared_memory_bytes: "Shared memory",
  blocks_per_sm: "Blocks per SM",
  warps_per_sm: "Warps per SM",
  occupancy_pct: "Occupancy",
  num_bytes: "Bytes",
  flops: "FLOPs",
  step: "Step",
  correlation_id: "Correlation id",
  external_id: "External id",
  sequence_nr: "Sequence number",
  graph_id: "CUDA graph",
  graph_node_id: "Graph node",
  collective: "Collective",
  process_group: "Process group",
  stack: "Call stack",
};

/**
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function detailFacts(data, i) {
  /** @type {Fact[]} */
  const facts = [];
  for (const [key, value] of Object.entries(data.detail(i))) {
    if (value === null || value === "") continue;
    facts.push([DETAIL_TERMS[key] ?? key, detailText(key, value)]);
  }
  return facts;
}

/**
 * @param {string} key
 * @param {string | number} value
 */
function detailText(key, value) {
  if (key.endsWith("_bytes")) return formatBytes(Number(value));
  if (key === "occupancy_pct") return `${value} %`;
  return typeof value === "number" ? formatCount(value) : String(value);
}

/** What options record, by column: the term, and the option of a cell and of torch.profiler. */
const OPTIONS = [
  ["stack", "Call stack", "--stacks (torch: with_stack=True)"],
  ["shapes", "Input shapes", "--shapes (torch: record_shapes=True)"],
];

/**
 * What was not recorded of an operator, with the option that records it.
 *
 * @param {TraceData} data
 * @param {number} i
 * @returns {Fact[]}
 */
function missingFacts({ header, cat }, i) {
  if (header.cats[cat[i]] !== "cpu_op") return [];
  const sent = new Set(header.details.map(({ name }) => name));
  if (header.cats.includes("python_function")) sent.add("stack");
  return OPTIONS.filter(([column]) => !sent.has(column)).map(([column, term, option]) => [
    term,
    header.dropped.includes(column) ? "left out to keep this page small" : `not recorded: add ${option}`,
  ]);
}

/**
 * Buttons to other events, and one that closes the details.
 *
 * @param {TraceData} data
 * @param {number} event
 * @param {SelectionStore} store
 * @param {TimelineView | undefined} timeline
 */
function detailButtons(data, event, store, timeline) {
  const select = (/** @type {number | null} */ other) => () => store.set({ event: other }, "details");
  const button = (/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ press) =>
    element("button", { class: "cl-button", type: "button", title, onclick: press }, text);
  const partner = timeline?.partnerOf(event) ?? event;
  const toPartner = data.launch[event] >= 0 ? "Go to launch" : "Go to kernel";
  const costs = () => store.set({ range: [data.start[event], data.start[event] + data.dur[event]] }, "details");
  const [before, after] = timeline ? [timeline.beside(event, "left"), timeline.beside(event, "right")] : [event, event];
  return [
    button("‹", "Previous event of the lane (left arrow)", select(before)),
    button("›", "Next event of the lane (right arrow)", select(after)),
    ...(partner === event ? [] : [button(toPartner, "The other end of the launch arrow (Enter)", select(partner))]),
    ...(data.dur[event] ? [button("Costs within", "Narrow the table to the time of this event", costs)] : []),
    button("✕", "Close (Escape)", select(null)),
  ];
}

/**
 * Shows event `event` (an index, or null for none) in `host`.
 *
 * @param {HTMLElement} host
 * @param {TraceData} data
 * @param {number | null} event
 * @param {SelectionStore} store
 * @param {TimelineView} [timeline]
 */
export function renderDetails(host, data, event, store, timeline) {
  if (event === null) {
    host.replaceChildren();
    return;
  }
  const list = element("dl", { class: "cl-facts" });
  for (const [term, text] of eventFacts(data, event)) {
    list.append(element("dt", {}, term), element("dd", { class: term.startsWith(SOURCE) ? "cl-source" : "" }, text));
  }
  const name = element("h3", { "aria-level": 2, class: "cl-event" }, data.header.names[data.name[event]]);
  const buttons = element("span", { class: "cl-event-buttons" }, ...detailButtons(data, event, store, timeline));
  host.replaceChildren(element("div", { class: "cl-event-head" }, name, buttons), list);
}
