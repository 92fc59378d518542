// The operator and kernel table: DataTables, in a shadow root, so that neither its style sheet nor the page's affects
// the other. Rows are costs by name over the current selection; clicking one selects that name everywhere.

import { element } from "../shared/dom.js";
import { aggregate, costBasis } from "./aggregate.js";
import { COLUMNS, HIDDEN_BELOW, SHARE_COLUMN } from "./columns.js";
import { STYLE } from "./style.js";

/** @import { TraceData } from "../payload/payload.js" */
/** @import { ThemeName } from "../shared/theme.js" */
/** @import { CostRow } from "./aggregate.js" */
/** @import { DataTable, DataTableClass } from "./datatables.js" */

/**
 * @typedef {object} TableOptions
 * @property {DataTableClass} DataTable
 * @property {string} styleSheet CSS text of DataTables.
 * @property {ThemeName} theme
 * @property {(names: Set<number> | null) => void} onNames After the user selects names.
 */

/**
 * @typedef {object} TableView
 * @property {(mask: Uint8Array | null) => Generator<void>} sum Sums the costs of the events of a mask, for `update`.
 * @property {() => void} load Hands the sums to DataTables; `update` does where this was not called.
 * @property {() => void} update Shows the sums.
 * @property {(names: Set<number> | null, current?: number | null) => void} choose Marks the rows of `names`, and of the
 *   name `current` of the event whose details show; its page comes into view.
 * @property {(name: ThemeName) => void} setTheme
 * @property {() => CostRow[]} rows
 * @property {() => void} destroy
 */

/**
 * @typedef {object} State
 * @property {CostRow[]} rows
 * @property {number | null} side That shows; null for both.
 * @property {Set<number>} chosen Names.
 * @property {number | null} current Name of the event whose details show.
 * @property {number} width That the columns fit, px.
 * @property {"summed" | "loaded" | "shown"} stage How far the rows have come.
 * @property {boolean} isWhole Whether all columns show, however narrow the page.
 */

/** @type {[label: string, side: number | null][]} */
const SIDES = [
  ["All", null],
  ["GPU", 1],
  ["CPU", 0],
];

/**
 * Builds the table in `host`.
 *
 * @param {HTMLElement} host
 * @param {TraceData} data
 * @param {TableOptions} options
 * @returns {TableView}
 */
export function createTable(host, data, { DataTable, styleSheet, theme, onNames }) {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const node = element("table", { class: "display compact", "aria-label": "Costs by name" });
  shadow.replaceChildren(element("style", {}, styleSheet), element("style", {}, STYLE), node);
  DataTable.ext.errMode = "throw";
  const basis = costBasis(data);
  const hasBoth = new Set(data.header.lanes.map(({ kind }) => kind)).size > 1;
  /** @type {State} */
  const state = { rows: [], side: null, chosen: new Set(), current: null, width: 0, stage: "shown", isWhole: false };
  /** @type {DataTable<CostRow>} */
  const table = new DataTable(node, {
    ...tableOptions(),
    layout: {
      topStart: hasBoth ? [() => sideButtons(state, () => show(table, state, "summed")), "info"] : "info",
      topEnd: "search",
      bottomStart: "pageLength",
      bottomEnd: "paging",
    },
    rowCallback: (/** @type {HTMLElement} */ row, /** @type {CostRow} */ costs) => markRow(row, costs, state),
  });
  withoutLandmarks(shadow);
  listenToRows(table, state, node, onNames);
  const all = columnsButton(state, () => fitColumns(table, state, host));
  shadow.append(all);
  const observer = new ResizeObserver(() => fitColumns(table, state, host));
  observer.observe(host);
  fitColumns(table, state, host);
  const setTheme = (/** @type {ThemeName} */ name) => void host.classList.toggle("dark", name === "dark");
  setTheme(theme);
  return {
    *sum(mask) {
      state.rows = yield* aggregate(data, basis, mask);
      state.stage = "summed";
    },
    load: () => load(table, state),
    update: () => show(table, state, state.stage),
    choose(names, current = null) {
      state.chosen = names ?? new Set();
      state.current = current;
      showPageOf(table, state);
      // biome-ignore lint/suspicious/useIterableCallbackReturn: DataTables' every() visits all rows.
      table.rows({ page: "current" }).every(function visit() {
        markRow(this.node(), this.data(), state);
      });
    },
    setTheme,
    rows: () => state.rows,
    destroy() {
      observer.disconnect();
      table.destroy();
      shadow.replaceChildren();
    },
  };
}

/**
 * The pages of a table are no landmark: a notebook has many tables.
 *
 * @param {ShadowRoot} shadow
 */
function withoutLandmarks(shadow) {
  for (const nav of shadow.querySelectorAll("nav")) {
    nav.removeAttribute("aria-label");
    nav.setAttribute("role", "none");
  }
}

function tableOptions() {
  return {
    columns: COLUMNS,
    data: [],
    order: [[SHARE_COLUMN, "desc"]],
    pageLength: 10,
    lengthMenu: [10, 25, 50, 100, { label: "all", value: -1 }],
    language: {
      search: "",
      searchPlaceholder: "Filter names",
      info: "_START_–_END_ of _TOTAL_ names",
      infoEmpty: "no names",
      infoFiltered: "(of _MAX_)",
      lengthMenu: "_MENU_ a page",
      emptyTable: "Nothing is selected here",
      zeroRecords: "No name matches the filter",
    },
    autoWidth: false,
    deferRender: true,
  };
}

/**
 * @param {DataTable<CostRow>} table
 * @param {State} state
 */
function load(table, state) {
  if (state.stage !== "summed") return;
  table.clear().rows.add(state.rows.filter((row) => state.side === null || row.side === state.side));
  state.stage = "loaded";
}

/**
 * @param {DataTable<CostRow>} table
 * @param {State} state
 * @param {State["stage"]} from The stage to go on from.
 */
function show(table, state, from) {
  state.stage = from;
  load(table, state);
  if (state.stage === "loaded") table.draw();
  state.stage = "shown";
}

/**
 * @param {State} state
 * @param {() => void} onChange
 */
function sideButtons(state, onChange) {
  const group = element("div", { class: "sides", role: "group", "aria-label": "Where the time went" });
  for (const [label, side] of SIDES) {
    const press = () => {
      state.side = side;
      for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === label));
      onChange();
    };
    group.append(element("button", { type: "button", "aria-pressed": String(side === null), onclick: press }, label));
  }
  return group;
}

/**
 * Turns to the page with the row of the event whose details show.
 *
 * @param {DataTable<CostRow>} table
 * @param {State} state
 */
function showPageOf(table, { current }) {
  if (current === null) return;
  const shown = table.rows({ search: "applied" }).data().toArray();
  const place = shown.findIndex(({ ids }) => ids.includes(current));
  const { length, page } = table.page.info();
  if (place < 0 || length <= 0 || Math.floor(place / length) === page) return;
  table.page(Math.floor(place / length)).draw("page");
}

/**
 * @param {HTMLElement} node
 * @param {CostRow} row
 * @param {State} state
 */
function markRow(node, row, { chosen, current }) {
  const isChosen = row.ids.some((id) => chosen.has(id));
  node.classList.toggle("current", current !== null && row.ids.includes(current));
  node.classList.toggle("chosen", isChosen);
  node.setAttribute("aria-selected", String(isChosen));
  node.tabIndex = 0;
}

/**
 * @param {DataTable<CostRow>} table
 * @param {State} state
 * @param {HTMLElement} node
 * @param {(names: Set<number> | null) => void} onNames
 */
function listenToRows(table, state, node, onNames) {
  const toggle = (/** @type {MouseEvent | KeyboardEvent} */ event) => {
    const found = event.composedPath().find(isBodyRow);
    const row = found && table.row(found).data();
    if (!row) return;
    const names = toggled(state.chosen, row.ids, event.ctrlKey || event.metaKey || event.shiftKey);
    onNames(names.size ? names : null);
  };
  node.addEventListener("click", toggle);
  node.addEventListener("keydown", (event) => {
    const [target] = event.composedPath();
    if ((event.key !== "Enter" && event.key !== " ") || !(target instanceof HTMLTableRowElement)) return;
    event.preventDefault();
    toggle(event);
  });
}

/**
 * @param {EventTarget} node
 * @returns {node is HTMLTableRowElement}
 */
function isBodyRow(node) {
  return node instanceof HTMLTableRowElement && node.parentElement?.tagName === "TBODY";
}

/**
 * The names that are chosen after a row with the names `ids` was pressed.
 *
 * @param {Set<number>} chosen
 * @param {number[]} ids
 * @param {boolean} isAdding Whether the other names stay chosen.
 */
function toggled(chosen, ids, isAdding) {
  const isIn = ids.every((id) => chosen.has(id));
  const isAlone = isIn && chosen.size === ids.length;
  const next = new Set(isAdding ? chosen : []);
  for (const id of ids) {
    if (isAdding && isIn) next.delete(id);
    else if (isAdding || !isAlone) next.add(id);
  }
  return next;
}

/**
 * Hides columns where there is little room.
 *
 * @param {DataTable<CostRow>} table
 * @param {State} state
 * @param {HTMLElement} host
 */
function fitColumns(table, state, host) {
  const width = state.isWhole ? Infinity : host.clientWidth;
  if (width === 0 || width === state.width) return;
  state.width = width;
  const isNarrow = host.clientWidth < HIDDEN_BELOW[0].width;
  host.setAttribute("data-view", isNarrow ? (state.isWhole ? "whole" : "narrow") : "wide");
  host.toggleAttribute("data-slim", width < HIDDEN_BELOW[2].width);
  for (const { width: least, columns } of HIDDEN_BELOW) table.columns(columns).visible(width >= least);
}

/**
 * @param {State} state
 * @param {() => void} onChange
 */
function columnsButton(state, onChange) {
  const press = () => {
    state.isWhole = !state.isWhole;
    button.setAttribute("aria-pressed", String(state.isWhole));
    onChange();
  };
  const button = element(
    "button",
    { type: "button", class: "columns", "aria-pressed": "false", onclick: press },
    "All columns",
  );
  return button;
}
