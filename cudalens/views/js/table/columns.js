// The columns of the table of costs. DataTables takes the texts of cells as HTML, so names are escaped.

import { escapeHtml } from "../shared/dom.js";
import { formatCount, formatDuration, formatPercent } from "../shared/format.js";

/** @import { CostRow } from "./aggregate.js" */
/** @import { TableColumn } from "./datatables.js" */

/** @typedef {"total" | "self" | "min" | "max"} TimeKey */

/** @type {{ [cat: string]: string }} */
const KIND_LABELS = {
  cpu_op: "CPU op",
  user_annotation: "range",
  gpu_user_annotation: "GPU range",
  cuda_runtime: "runtime",
  cuda_driver: "driver",
  kernel: "kernel",
  gpu_memcpy: "copy",
  gpu_memset: "set",
  python_function: "Python",
  cuda_sync: "sync",
  overhead: "overhead",
};

/** @param {CostRow} row */
function meanHtml({ mean, std }) {
  const spread = std !== null ? ` <span class="spread">± ${formatDuration(std)}</span>` : "";
  return `${formatDuration(mean)}${spread}`;
}

/** @param {CostRow} row */
function shareHtml({ share, side }) {
  const of = side ? "GPU" : "CPU";
  return `<span class="bar"><i style="width:${share.toFixed(1)}%"></i></span>${formatPercent(share)} ${of}`;
}

/** @param {CostRow} row */
function nameHtml({ name, short }) {
  return `<span class="name" title="${escapeHtml(name)}">${escapeHtml(short)}</span>`;
}

/** @param {CostRow} row */
function kindText({ cat }) {
  return KIND_LABELS[cat] ?? cat;
}

/**
 * A column whose cells show `html(row)` and sort by `value(row)`.
 *
 * @param {string} title
 * @param {keyof CostRow} key
 * @param {(row: CostRow) => string | number} value
 * @param {(row: CostRow) => string} html
 * @returns {TableColumn<CostRow>}
 */
function column(title, key, value, html) {
  const isText = key === "name" || key === "cat";
  return {
    title,
    data: key,
    ...(isText ? {} : { className: "number" }),
    render: (_, type, row) => (type === "display" ? html(row) : value(row)),
    searchable: isText,
    orderSequence: ["desc", "asc"],
  };
}

/**
 * @param {string} title
 * @param {TimeKey} key
 */
function timeColumn(title, key) {
  return column(
    title,
    key,
    (row) => row[key],
    (row) => formatDuration(row[key]),
  );
}

export const COLUMNS = [
  column("Name", "name", (row) => `${row.short} ${row.name}`, nameHtml),
  column("Kind", "cat", kindText, (row) => `<span class="kind">${escapeHtml(kindText(row))}</span>`),
  column(
    "Count",
    "count",
    (row) => row.count,
    (row) => formatCount(row.count),
  ),
  timeColumn("Total", "total"),
  timeColumn("Self", "self"),
  column("Mean ± sd", "mean", (row) => row.mean, meanHtml),
  timeColumn("Min", "min"),
  timeColumn("Max", "max"),
  column("Share of self", "share", (row) => row.share, shareHtml),
];

/** @param {keyof CostRow} key */
function placeOf(key) {
  return COLUMNS.findIndex((one) => one.data === key);
}

export const SHARE_COLUMN = placeOf("share");

// Below these widths, px, columns are hidden, the least important first; a button shows all of them.
export const HIDDEN_BELOW = [
  { width: 1000, columns: [placeOf("min"), placeOf("max")] },
  { width: 760, columns: [placeOf("cat"), placeOf("total")] },
  { width: 600, columns: [placeOf("mean"), placeOf("count")] },
];
