// The elements of a view, empty and in their order.

import { element } from "../shared/dom.js";
import { copyButton } from "./copy.js";

/** @import { PageFacts } from "./source.js" */
/** @typedef {ReturnType<typeof buildSkeleton>} Parts */

/**
 * @param {HTMLElement} root
 * @param {PageFacts} facts
 */
export function buildSkeleton(root, facts) {
  const tableHost = element("div", { class: "cl-table-host" });
  const parts = {
    verdict: element("p", { class: "cl-verdict" }, ...badgeParts(facts.badge), ...verdictParts(facts.verdict)),
    copyVerdict: copyButton("Copy", "Copy this answer as text", verdictText(facts)),
    message: element("div", { class: "cl-message", role: "alert", hidden: true }),
    status: element("p", { class: "cl-hint cl-status" }, "Loading the timeline…"),
    races: section("cl-races", "Races"),
    graphs: section("cl-graphs", "CUDA graphs"),
    findings: section("cudalens-findings", "Findings"),
    memoryMap: section("cl-memory-map", "Memory"),
    part: element("p", { class: "cl-hint cl-part", hidden: true }),
    timeline: element("div", { class: "cl-timeline" }),
    metrics: section("cl-metrics", "Readings of the GPUs"),
    syncs: section("cudalens-syncs", "Waits for the GPU"),
    bar: element("div", { class: "cl-bar", hidden: true }),
    marks: section("cl-marks", "Marks"),
    table: section("cl-panel cl-table", "Costs"),
    tableHost,
    details: section("cl-panel cl-details", "Details of the selected event"),
    memory: section("cl-panel cl-memory", "Memory curve"),
  };
  root.replaceChildren(
    element("div", { class: "cl-verdict-row" }, parts.verdict, parts.copyVerdict),
    ...supportParts(facts.details),
    ...noteList(facts.notes),
    parts.message,
    parts.status,
    ...(facts.graphsFirst ? [parts.graphs, parts.races] : [parts.races, parts.graphs]),
    ...(facts.memoryFirst ? [parts.memoryMap] : []),
    parts.part,
    parts.timeline,
    parts.details,
    parts.bar,
    parts.marks,
    parts.metrics,
    parts.findings,
    parts.syncs,
    parts.table,
    parts.memory,
    ...(facts.memoryFirst ? [] : [parts.memoryMap]),
  );
  return parts;
}

/**
 * A hidden section: a group, since landmarks of one name in every cell of a notebook cannot be distinguished.
 *
 * @param {string} name Of its class.
 * @param {string} label
 * @param {...HTMLElement} children
 */
function section(name, label, ...children) {
  return element("section", { class: name, role: "group", "aria-label": label, hidden: true }, ...children);
}

/** @param {PageFacts} facts */
function verdictText({ badge, verdict, details }) {
  return [badge ? `[${badge}] ${verdict}` : verdict, ...(details ? [details] : [])].join("\n");
}

/** @param {string} badge */
function badgeParts(badge) {
  return badge ? [element("span", { class: "cl-badge" }, badge), " "] : [];
}

/**
 * The answer in bold; what supports it follows in normal weight.
 *
 * @param {string} verdict
 */
function verdictParts(verdict) {
  const at = verdict.indexOf("; ");
  if (at < 0) return [element("strong", {}, verdict)];
  return [element("strong", {}, verdict.slice(0, at)), verdict.slice(at)];
}

/** @param {string} [details] */
function supportParts(details) {
  if (!details) return [];
  return [
    element("details", { class: "cl-support" }, element("summary", {}, "more figures"), element("p", {}, details)),
  ];
}

/** @param {string[]} [notes] */
function noteList(notes = []) {
  if (!notes.length) return [];
  return [element("ul", { class: "cl-notes" }, ...notes.map((note) => element("li", {}, note)))];
}
