// What is known of a block or a gap: in a few lines for the tooltip, in full for the panel.

import { element } from "../shared/dom.js";
import { formatBytes, formatCount, formatDuration, formatPercent } from "../shared/format.js";
import { momentText } from "./curve.js";
import { factsOf, poolText, stackLabel, variableNames } from "./grouping.js";
import { stackLines } from "./holders.js";

/** @import { MemoryData } from "./data.js" */
/** @import { Hit } from "./layout.js" */
/** @import { Moment } from "./moment.js" */

/** @typedef {[name: string, value: string | number | null | undefined]} Fact */

/**
 * For the tooltip and for screen readers.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Hit} hit
 * @returns {string[]}
 */
export function describeHit(data, moment, { strip: k, allocation, bytes }) {
  const { allocations, header } = data;
  const strip = moment.strips[k];
  const pool = poolText(header.pools[strip.pool]);
  if (allocation < 0) {
    return [`free, ${formatBytes(bytes)}`, strip.used ? "a gap between blocks" : "an empty segment", pool];
  }
  const names = variableNames(data, allocation).slice(0, 3).join(", ");
  const isPending = allocations.released[allocation] <= moment.row;
  return [
    [names, formatBytes(allocations.bytes[allocation]), categoryOf(data, allocation)].filter(Boolean).join(" · "),
    isPending ? "freed, waits for a stream" : "",
    stackLabel(data, allocations.stack[allocation]),
    pool,
  ].filter(Boolean);
}

/**
 * @param {MemoryData} data
 * @param {number} allocation
 * @returns {string | null}
 */
function categoryOf({ allocations, header }, allocation) {
  const place = allocations.category[allocation];
  return place ? header.categories[place - 1] : null;
}

/**
 * Pairs of name and value, and the call stack.
 *
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Hit | null} hit
 */
export function renderBlockDetails(host, data, moment, hit) {
  host.hidden = !hit;
  if (!hit) return;
  const isGap = hit.allocation < 0;
  const facts = isGap ? gapFacts(data, moment, hit) : blockFacts(data, moment, hit);
  const rows = facts
    .filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]);
  const stack = isGap ? -1 : data.allocations.stack[hit.allocation];
  const lines = stack >= 0 ? stackLines(data, stack) : [];
  host.replaceChildren(
    element("h4", { "aria-level": 3 }, isGap ? "Free memory" : "Block"),
    element("dl", { class: "cl-facts" }, ...rows),
    ...(lines.length
      ? [element("h4", { "aria-level": 3 }, "Allocated by"), element("pre", { class: "mm-stack" }, lines.join("\n"))]
      : []),
  );
}

/**
 * @param {MemoryData} data
 * @param {number} offset From header.base.
 */
function addressText({ header }, offset) {
  return `0x${(BigInt(header.base) + BigInt(Math.round(offset))).toString(16)}`;
}

/** @param {number} bytes */
function exactSize(bytes) {
  return `${formatBytes(bytes)} (${formatCount(bytes)} bytes)`;
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Hit} hit
 * @returns {Fact[]}
 */
function segmentFacts(data, moment, hit) {
  const strip = moment.strips[hit.strip];
  const place = `${formatBytes(strip.bytes)} at ${addressText(data, strip.addr)}`;
  return [
    ["pool", poolText(data.header.pools[strip.pool])],
    ["segment", `${place}${strip.grows ? ", expandable" : ""}`],
    ["segment in use", formatPercent((100 * strip.used) / strip.bytes)],
  ];
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Hit} hit
 * @returns {Fact[]}
 */
function gapFacts(data, moment, hit) {
  return [["size", exactSize(hit.bytes)], ["address", addressText(data, hit.from)], ...segmentFacts(data, moment, hit)];
}

/**
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {Hit} hit
 * @returns {Fact[]}
 */
function blockFacts(data, moment, hit) {
  const { allocation } = hit;
  const { bytes, requested, released, addr } = data.allocations;
  const { cell, num_tensors, graph, user_metadata } = factsOf(data, allocation);
  const asked = requested[allocation];
  return [
    ["held by", variableNames(data, allocation).join(", ")],
    ["size", exactSize(bytes[allocation])],
    ["asked for", Number.isNaN(asked) ? null : exactSize(asked)],
    ["state", released[allocation] <= moment.row ? "freed, waits for a stream" : "in use"],
    ["category", categoryOf(data, allocation) ?? "not known"],
    ...timeFacts(data, moment, allocation),
    ["cell", cell],
    ["live tensors", num_tensors],
    ["graphs", graph],
    ["metadata", user_metadata],
    ["address", addressText(data, addr[allocation])],
    ...segmentFacts(data, moment, hit),
  ];
}

/**
 * When a block was allocated and freed.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 * @param {number} allocation
 * @returns {Fact[]}
 */
function timeFacts(data, moment, allocation) {
  const { allocations, clock, numRows } = data;
  const [made, freed] = [allocations.alloc[allocation], allocations.done[allocation]];
  return [
    ["allocated", made < 0 ? "before the history" : momentText(data, made)],
    ["age", made >= 0 && clock ? formatDuration(clock[Math.max(moment.row, 0)] - clock[made]) : null],
    ["freed", freed < numRows ? momentText(data, freed) : null],
  ];
}
