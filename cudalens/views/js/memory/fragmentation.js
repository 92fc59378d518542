// The bar of fragmentation: the reserved memory of a moment by use.

import { element } from "../shared/dom.js";
import { formatBytes, formatPercent } from "../shared/format.js";

/** @import { Moment, Sums } from "./moment.js" */

/** @typedef {{ key: string, label: string, meaning: string, bytesOf: (sums: Sums) => number }} Part */

/** @type {Part[]} */
const PARTS = [
  {
    key: "requested",
    label: "asked for",
    meaning: "what programs asked for, of blocks in use",
    bytesOf: (sums) => sums.active - sums.internal,
  },
  {
    key: "internal",
    label: "rounding",
    meaning: "blocks in use that are larger than what was asked for",
    bytesOf: (sums) => sums.internal,
  },
  {
    key: "external",
    label: "gaps",
    meaning: "free memory in segments that hold something: it fits only what is small enough",
    bytesOf: (sums) => sums.external,
  },
  {
    key: "empty",
    label: "cached",
    meaning: "segments in which nothing is in use; torch.cuda.empty_cache() returns them",
    bytesOf: (sums) => sums.empty,
  },
];

/**
 * @param {HTMLElement} host
 * @param {Moment} moment
 */
export function renderFragmentation(host, { sums }) {
  const parts = PARTS.map((part) => ({ ...part, bytes: part.bytesOf(sums) }));
  const pieces = parts.filter(({ bytes }) => bytes > 0).map(barPiece);
  const legend = parts.map(({ key, label, meaning, bytes }) =>
    element(
      "span",
      { class: "mm-key", title: meaning },
      element("i", { class: `mm-is-${key}` }),
      `${label} ${formatBytes(bytes)} (${formatPercent(shareOf(sums, bytes))})`,
    ),
  );
  host.replaceChildren(
    element("p", {}, summary(sums)),
    element("div", { class: "mm-bar", role: "img", "aria-label": "Reserved memory by use" }, ...pieces),
    element("p", { class: "mm-legend" }, ...legend),
  );
}

/** @param {{ key: string, label: string, bytes: number }} part */
function barPiece({ key, label, bytes }) {
  const piece = element("span", { class: `mm-part mm-is-${key}`, title: `${label}: ${formatBytes(bytes)}` });
  piece.style.flexGrow = String(bytes);
  return piece;
}

/**
 * @param {Sums} sums
 * @param {number} bytes
 */
function shareOf({ reserved }, bytes) {
  return reserved ? (100 * bytes) / reserved : 0;
}

/** @param {Sums} sums */
function summary(sums) {
  if (!sums.reserved) return "No memory was reserved.";
  const share = formatPercent(shareOf(sums, sums.internal + sums.external));
  const largest = formatBytes(sums.largest);
  return (
    `Fragmentation ${share} of ${formatBytes(sums.reserved)} reserved; ` +
    `the largest block that fits without new memory is ${largest}.`
  );
}
