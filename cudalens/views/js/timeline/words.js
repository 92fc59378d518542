// Events and their names in words: for tooltips, screen readers and the labels of blocks.

import { EVENT_FLAGS } from "../payload/derive.js";
import { formatDuration } from "../shared/format.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { Timeline } from "./state.js" */

/**
 * Lines of the tooltip of an event; the first is its name.
 *
 * @param {Timeline} timeline
 * @param {number} i
 */
export function tipLines({ data, races }, i) {
  const { names, cats, lanes } = data.header;
  const isSelf = lanes[data.lane[i]].kind === "host" && data.self[i] !== data.dur[i];
  const self = isSelf ? `, self ${formatDuration(data.self[i])}` : "";
  const lines = [names[data.name[i]].slice(0, 400) || "(no name)"];
  const enclosing = enclosingText(data, i);
  const innermost = data.name[i + lanes[data.lane[i]].enclosing - 1];
  if (enclosing) lines.push(`${enclosing}, the innermost: ${names[innermost].slice(0, 200)}`);
  lines.push(data.flags[i] & EVENT_FLAGS.instant ? "instant" : `${formatDuration(data.dur[i])}${self}`);
  lines.push(`${cats[data.cat[i]] || "no category"} · at ${exactTime(data.start[i])}`);
  const by = data.launch[i];
  if (by >= 0) {
    const name = names[data.name[by]].slice(0, 100);
    lines.push(`launched by ${name}, ${formatDuration(data.start[i] - data.start[by])} earlier`);
  }
  const race = races.find(({ event }) => event === i);
  if (race) lines.push(`race: ${race.title}`);
  return lines;
}

/**
 * "20 enclosing frames" for the event that shows all frames around the work of its thread; undefined for others.
 *
 * @param {TraceData} data
 * @param {number} i
 */
export function enclosingText(data, i) {
  const { enclosing } = data.header.lanes[data.lane[i]];
  const isFirst = i === 0 || data.lane[i - 1] !== data.lane[i];
  return enclosing > 1 && isFirst ? `${enclosing} enclosing frames` : undefined;
}

/**
 * What a screen reader reads for event i.
 *
 * @param {TraceData} data
 * @param {number} i
 */
export function describeEvent(data, i) {
  const { names, cats, lanes } = data.header;
  const parts = [names[data.name[i]].slice(0, 200) || "no name", cats[data.cat[i]] || "no category"];
  parts.push(data.flags[i] & EVENT_FLAGS.instant ? "an instant" : `lasts ${formatDuration(data.dur[i])}`);
  parts.push(`starts at ${formatDuration(data.start[i])}`, `on ${lanes[data.lane[i]].label}`);
  if (data.launch[i] >= 0) parts.push(`launched by ${names[data.name[data.launch[i]]].slice(0, 100)}`);
  return parts.join(", ");
}

/**
 * A name as it is written on a block: prefixes that all kernels of torch share are left out.
 *
 * @param {string} name
 */
export function blockLabel(name) {
  const short = name
    .slice(0, 300)
    .replace(/^void /, "")
    .replaceAll("(anonymous namespace)::", "")
    .replaceAll("at::native::", "");
  return short || name.slice(0, 300);
}

/**
 * The part of a label that differs from its neighbours, for blocks too narrow for all of it.
 *
 * @param {string} label
 */
export function shortLabel(label) {
  return (
    label.replace(
      /^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
      "",
    ) || label
  );
}

/** @type {[scale: number, unit: string, decimals: number][]} */
const EXACT_UNITS = [
  [1e9, "s", 9],
  [1e6, "ms", 6],
  [1e3, "µs", 3],
];

/**
 * A time to the nanosecond.
 *
 * @param {number} t
 */
function exactTime(t) {
  const [scale, unit, decimals] = EXACT_UNITS.find(([k]) => Math.abs(t) >= k) ?? [1, "ns", 0];
  return `${(t / scale).toFixed(decimals)} ${unit}`;
}
