// The table of what holds the memory.

import { element } from "../shared/dom.js";
import { formatBytes, formatCount, formatPercent } from "../shared/format.js";
import { groupAllocations, groupingsOf } from "./grouping.js";

/** @import { MemoryData } from "./data.js" */
/** @import { Group, Grouping } from "./grouping.js" */

/**
 * @typedef {object} HoldersOptions
 * @property {Grouping} by
 * @property {string | number | null} picked The group whose blocks show in the map.
 * @property {(key: string | number | null) => void} onPick
 */

const MAX_ROWS = 25;

/**
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {Iterable<number>} chosen Indices of allocations.
 * @param {HoldersOptions} options
 */
export function renderHolders(host, data, chosen, options) {
  const groups = groupAllocations(data, chosen, options.by);
  const total = sumOf(groups);
  const name = groupingsOf(data).find(([key]) => key === options.by)?.[1] ?? options.by;
  const titles = [name, "held", "share", "blocks"].map((text) => element("th", { scope: "col" }, text));
  const rows = groups.slice(0, MAX_ROWS).map((group) => groupRow(data, group, total, options));
  const table = element(
    "table",
    { class: "mm-table" },
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...rows),
  );
  const note = noteOf(groups);
  host.replaceChildren(table, ...(note ? [element("p", { class: "cl-hint" }, note)] : []));
}

/** @param {Group[]} groups */
function sumOf(groups) {
  return groups.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** @param {Group[]} groups */
function noteOf(groups) {
  if (!groups.length) return "Nothing was in use.";
  const rest = groups.slice(MAX_ROWS);
  return rest.length ? `and ${formatCount(rest.length)} more with ${formatBytes(sumOf(rest))}` : "";
}

/**
 * @param {MemoryData} data
 * @param {Group} group
 * @param {number} total Bytes.
 * @param {HoldersOptions} options
 */
function groupRow(data, { key, label, bytes, num }, total, { by, picked, onPick }) {
  const isPicked = picked === key;
  const share = total ? (100 * bytes) / total : 0;
  const fill = element("span", { class: "mm-fill" });
  fill.style.width = `${share}%`;
  const stack = by === "stack" ? Number(key) : -1;
  const row = element(
    "tr",
    {
      tabindex: 0,
      "data-picked": isPicked,
      "aria-pressed": String(isPicked),
      role: "button",
      title: stack >= 0 ? stackLines(data, stack).join("\n") : null,
    },
    element("td", { class: "mm-name" }, fill, element("span", {}, label)),
    element("td", {}, formatBytes(bytes)),
    element("td", {}, formatPercent(share)),
    element("td", {}, formatCount(num)),
  );
  const pick = () => onPick(isPicked ? null : key);
  row.addEventListener("click", pick);
  row.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  });
  return row;
}

/**
 * The stack frames of a stack, innermost first.
 *
 * @param {MemoryData} data
 * @param {number} stack
 */
export function stackLines({ stacks }, stack) {
  return [...stacks.idsOf(stack)].map((id) => {
    const { file, line, name } = stacks.frameAt(id);
    return `${file}${line >= 0 ? `:${line}` : ""} ${name || "?"}`.trim();
  });
}
