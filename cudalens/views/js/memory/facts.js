// What is said of a moment and of a block: the bar of fragmentation, the table of what holds the memory, the details.

import { mmFrameText } from "./data.js";
import { mmMomentText } from "./curve.js";
import { mmGrouped, mmGroupings, mmNames, mmPoolText, mmStackLabel, mmTold } from "./moment.js";
import { uiCount, uiDuration, uiElement, uiPercent, uiPlural, uiSize } from "../shared/dom.js";

const MM_ROWS = 25;
const MM_PARTS = [
  ["requested", "asked for", "what programs asked for, of blocks in use"],
  ["internal", "rounding", "blocks in use that are larger than what was asked for"],
  ["external", "gaps", "free memory in segments that hold something: it fits only what is small enough"],
  ["empty", "cached", "segments in which nothing is in use; torch.cuda.empty_cache() returns them"],
];

// The reserved memory of a moment as one bar, and the numbers beneath it.
export function mmRenderFragmentation(host, moment) {
  const { sums } = moment;
  const parts = { ...sums, requested: sums.active - sums.internal };
  const share = (bytes) => (sums.reserved ? (100 * bytes) / sums.reserved : 0);
  const wasted = sums.internal + sums.external;
  const bar = uiElement("div", { class: "mm-bar", role: "img", "aria-label": "Reserved memory by use" },
    ...MM_PARTS.filter(([key]) => parts[key] > 0).map(([key, label]) => {
      const piece = uiElement("span", { class: `mm-part mm-is-${key}`, title: `${label}: ${uiSize(parts[key])}` });
      piece.style.flexGrow = String(parts[key]);
      return piece;
    }));
  const legend = MM_PARTS.map(([key, label, meaning]) => uiElement("span", { class: "mm-key", title: meaning },
    uiElement("i", { class: `mm-is-${key}` }), `${label} ${uiSize(parts[key])} (${uiPercent(share(parts[key]))})`));
  const words = sums.reserved
    ? `Fragmentation ${uiPercent(share(wasted))} of ${uiSize(sums.reserved)} reserved; the largest block that fits without new memory is ${uiSize(sums.largest)}.`
    : "No memory was reserved.";
  host.replaceChildren(uiElement("p", {}, words), bar, uiElement("p", { class: "mm-legend" }, ...legend));
}

// Who holds the memory of `chosen` lives; a row shows its blocks in the map. `state` {by, picked}.
export function mmRenderHolders(host, data, chosen, state, onPick) {
  const groups = mmGrouped(data, chosen, state.by);
  const total = groups.reduce((sum, { bytes }) => sum + bytes, 0);
  const row = ({ key, label, bytes, num }) => {
    const isPicked = state.picked === key;
    const fill = uiElement("span", { class: "mm-fill" });
    fill.style.width = `${total ? (100 * bytes) / total : 0}%`;
    const node = uiElement("tr", { tabindex: 0, "data-picked": isPicked, "aria-pressed": String(isPicked), role: "button",
      title: state.by === "stack" && key >= 0 ? mmStackLines(data, key).join("\n") : null },
      uiElement("td", { class: "mm-name" }, fill, uiElement("span", {}, label)),
      uiElement("td", {}, uiSize(bytes)), uiElement("td", {}, uiPercent(total ? (100 * bytes) / total : 0)), uiElement("td", {}, uiCount(num)));
    const pick = () => onPick(isPicked ? null : key);
    node.addEventListener("click", pick);
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      pick();
    });
    return node;
  };
  const head = uiElement("tr", {}, ...[Object.fromEntries(mmGroupings(data))[state.by], "held", "share", "blocks"].map((text) => uiElement("th", { scope: "col" }, text)));
  const rest = groups.slice(MM_ROWS);
  const note = rest.length ? `and ${uiPlural(rest.length, "more")
    .replace("mores", "more")} with ${uiSize(rest.reduce((sum, { bytes }) => sum + bytes, 0))}` : "";
  const empty = groups.length ? null : uiElement("p", { class: "cl-hint" }, "Nothing was in use.");
  host.replaceChildren(uiElement("table", { class: "mm-table" }, uiElement("thead", {}, head),
    uiElement("tbody", {}, ...groups.slice(0, MM_ROWS).map(row))), ...(empty ? [empty] : []),
    ...(note ? [uiElement("p", { class: "cl-hint" }, note)] : []));
}

export function mmStackLines(data, stack) {
  return [...data.stacks.idsOf(stack)].map((id) => {
    const { file, line, name } = data.stacks.frameAt(id);
    return `${file}${line >= 0 ? `:${line}` : ""} ${name || "?"}`.trim();
  });
}

// A block in a few lines, for the tip and for screen readers.
export function mmDescribe(data, moment, hit) {
  const { lives, header } = data;
  const strip = moment.strips[hit.strip];
  const pool = mmPoolText(header.pools[strip.pool]);
  if (hit.life < 0) return [`free, ${uiSize(hit.bytes)}`, strip.used ? "a gap between blocks" : "an empty segment", pool];
  const life = hit.life;
  const names = mmNames(data, life);
  const category = lives.category[life] ? header.categories[lives.category[life] - 1] : null;
  return [
    [names.slice(0, 3).join(", "), uiSize(lives.bytes[life]), category].filter(Boolean).join(" · "),
    lives.released[life] <= moment.row ? "freed, waits for a stream" : null,
    mmStackLabel(data, lives.stack[life]),
    pool,
  ].filter(Boolean);
}

// All that is known of what was chosen, as pairs and the call stack.
export function mmRenderDetails(host, data, moment, hit) {
  host.hidden = !hit;
  if (!hit) return;
  const facts = hit.life < 0 ? mmGapFacts(data, moment, hit) : mmBlockFacts(data, moment, hit);
  const rows = facts.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [uiElement("dt", {}, name), uiElement("dd", {}, String(value))]);
  const stack = hit.life >= 0 ? data.lives.stack[hit.life] : -1;
  const frames = stack >= 0 ? mmStackLines(data, stack) : [];
  host.replaceChildren(
    uiElement("h4", {}, hit.life < 0 ? "Free memory" : "Block"),
    uiElement("dl", { class: "cl-facts" }, ...rows),
    ...(frames.length ? [uiElement("h4", {}, "Allocated by"), uiElement("pre", { class: "mm-stack" }, frames.join("\n"))] : []));
}

const mmAddress = (data, offset) => `0x${(BigInt(data.header.base) + BigInt(Math.round(offset))).toString(16)}`;

function mmSegmentFacts(data, moment, hit) {
  const strip = moment.strips[hit.strip];
  return [
    ["pool", mmPoolText(data.header.pools[strip.pool])],
    ["segment", `${uiSize(strip.bytes)} at ${mmAddress(data, strip.addr)}${strip.grows ? ", expandable" : ""}`],
    ["segment in use", uiPercent((100 * strip.used) / strip.bytes)],
  ];
}

function mmGapFacts(data, moment, hit) {
  return [["size", `${uiSize(hit.bytes)} (${uiCount(hit.bytes)} bytes)`], ["address", mmAddress(data, hit.from)], ...mmSegmentFacts(data, moment, hit)];
}

function mmBlockFacts(data, moment, hit) {
  const { lives, header, clock } = data;
  const life = hit.life;
  const told = mmTold(data, life);
  const asked = lives.requested[life];
  const ended = lives.done[life] < data.numRows ? mmMomentText(data, lives.done[life]) : null;
  const age = lives.alloc[life] >= 0 && clock ? uiDuration(clock[Math.max(moment.row, 0)] - clock[lives.alloc[life]]) : null;
  return [
    ["held by", mmNames(data, life).join(", ")],
    ["size", `${uiSize(lives.bytes[life])} (${uiCount(lives.bytes[life])} bytes)`],
    ["asked for", Number.isNaN(asked) ? null : `${uiSize(asked)} (${uiCount(asked)} bytes)`],
    ["state", lives.released[life] <= moment.row ? "freed, waits for a stream" : "in use"],
    ["category", lives.category[life] ? header.categories[lives.category[life] - 1] : "unknown"],
    ["allocated", lives.alloc[life] < 0 ? "before the history" : mmMomentText(data, lives.alloc[life])],
    ["age then", age],
    ["freed", ended],
    ["cell", told.cell],
    ["live tensors", told.num_tensors],
    ["graphs", told.graph],
    ["metadata", told.user_metadata],
    ["address", mmAddress(data, lives.addr[life])],
    ...mmSegmentFacts(data, moment, hit),
  ];
}
