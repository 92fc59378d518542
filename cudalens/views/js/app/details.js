// What is known about one event, as a list of terms; and what is said while nothing is selected.

import { uiCount, uiDuration, uiElement, uiSize } from "../shared/dom.js";

// Facts of event `i` as [term, text] pairs, most telling first.
export function eventFacts(data, i) {
  const lane = data.header.lanes[data.lane[i]];
  const facts = [
    ["Kind", data.header.cats[data.cat[i]]],
    ["Start", uiDuration(data.start[i])],
    ["Duration", uiDuration(data.dur[i])],
  ];
  if (lane.kind === "host" && data.self[i] !== data.dur[i]) facts.push(["Self time", uiDuration(data.self[i])]);
  facts.push([lane.kind === "device" ? "Stream" : "Thread", lane.label]);
  if (data.launch[i] >= 0) facts.push(...launchFacts(data, i));
  for (const [term, text] of detailFacts(data, i)) facts.push([term, text]);
  facts.push(["Row", `trace.events.iloc[${data.row[i]}]`]);
  return facts;
}

function launchFacts(data, i) {
  const by = data.launch[i];
  return [
    ["Launched by", data.header.names[data.name[by]]],
    ["Waited", uiDuration(data.start[i] - data.start[by])],
  ];
}

const DETAIL_TERMS = {
  shapes: "Input shapes", dtypes: "Input dtypes", module: "Module", grid: "Grid", block_dim: "Block",
  registers: "Registers a thread", shared_memory_bytes: "Shared memory", blocks_per_sm: "Blocks per SM",
  warps_per_sm: "Warps per SM", occupancy_pct: "Occupancy", num_bytes: "Bytes", flops: "FLOPs", step: "Step",
  correlation_id: "Correlation id", external_id: "External id", sequence_nr: "Sequence number", graph_id: "CUDA graph",
  graph_node_id: "Graph node", collective: "Collective", process_group: "Process group", stack: "Call stack",
};

function detailFacts(data, i) {
  const facts = [];
  for (const [key, value] of Object.entries(data.detail?.(i) ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    facts.push([DETAIL_TERMS[key] ?? key, detailText(key, value)]);
  }
  return facts;
}

function detailText(key, value) {
  if (key.endsWith("_bytes")) return uiSize(Number(value));
  if (key === "occupancy_pct") return `${value} %`;
  return typeof value === "number" ? uiCount(value) : String(value);
}

// Shows event `event` (an index, or null for none) in `host`.
export function renderDetails(host, data, event) {
  if (event === null) {
    host.replaceChildren();
    return;
  }
  const list = uiElement("dl", { class: "cl-facts" });
  for (const [term, text] of eventFacts(data, event)) {
    list.append(uiElement("dt", {}, term), uiElement("dd", {}, text));
  }
  host.replaceChildren(uiElement("h3", { class: "cl-event" }, data.header.names[data.name[event]]), list);
}
