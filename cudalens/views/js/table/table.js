// The operator and kernel table: DataTables, in a shadow root, so that neither its style sheet nor the page's reaches
// the other. Rows are costs by name over the current selection; clicking one selects that name everywhere.

import { aggregate, costBasis } from "./aggregate.js";
import { uiCount, uiDuration, uiElement, uiEscape, uiPercent } from "../shared/dom.js";

const TABLE_STYLE = `
:host { display: block; container-type: inline-size; --dt-html-background: transparent; --dt-row-selected: var(--cl-selected-rgb); font: inherit; color: inherit; }
:host([hidden]) { display: none; }
div.dt-container { background: transparent; color: inherit; font-size: 13px; }
div.dt-container div.dt-layout-row { margin: 6px 0; gap: 8px; }
div.dt-container .dt-info, div.dt-container .dt-length label, div.dt-container .dt-search label { color: var(--cl-muted); font-size: 12px; }
div.dt-container .dt-input { border: 1px solid var(--cl-line) !important; border-radius: 6px; padding: 4px 8px; font: inherit; background: var(--cl-field) !important; color: inherit; }
div.dt-container .dt-input:focus-visible, tr:focus-visible, th:focus-visible, button:focus-visible { outline: 2px solid var(--cl-accent); outline-offset: -1px; }
div.dt-container .dt-search input { min-width: 14em; margin-left: 0; }
div.dt-container .dt-paging .dt-paging-button { padding: 2px 8px; border-radius: 6px; border: 1px solid transparent !important; font: inherit; }
div.dt-container .dt-paging .dt-paging-button:hover, div.dt-container .dt-paging .dt-paging-button.current { background: var(--cl-hover) !important; color: inherit !important; border-color: var(--cl-line) !important; box-shadow: none; }
div.dt-container .dt-paging .dt-paging-button.disabled { opacity: 0.4; background: transparent !important; }
div.sides { display: inline-flex; vertical-align: middle; border: 1px solid var(--cl-line); border-radius: 6px; overflow: hidden; }
div.sides button { border: 0; background: none; color: inherit; font: inherit; font-size: 12px; padding: 3px 12px; cursor: pointer; }
div.sides button + button { border-left: 1px solid var(--cl-line); }
div.sides button[aria-pressed="true"] { background: var(--cl-chosen); font-weight: 600; }
div.dt-container .dt-info { display: inline-block; }
table.dataTable { width: 100% !important; border-collapse: collapse !important; font-variant-numeric: tabular-nums; table-layout: auto; }
table.dataTable > thead > tr > th .dt-column-header { gap: 4px; }
table.dataTable > thead > tr > th { border-bottom: 1px solid var(--cl-line) !important; padding: 6px 10px; font-weight: 600; font-size: 12px; color: var(--cl-muted); white-space: nowrap; text-align: left; }
table.dataTable > thead > tr > th.number, table.dataTable > tbody > tr > td.number { text-align: right; }
table.dataTable > tbody > tr > td { border-top: 1px solid var(--cl-line-soft); padding: 4px 10px; white-space: nowrap; box-shadow: none !important; color: inherit; }
table.dataTable > tbody > tr:first-child > td { border-top: 0; }
table.dataTable > tbody > tr { cursor: pointer; background: transparent !important; }
table.dataTable > tbody > tr:hover > td { background: var(--cl-hover); }
table.dataTable > tbody > tr.chosen > td { background: var(--cl-chosen); }
table.dataTable > tbody > tr.chosen > td:first-child { box-shadow: inset 3px 0 0 var(--cl-accent) !important; }
table.dataTable > tbody > tr > td.dt-empty { text-align: center; color: var(--cl-muted); padding: 18px; cursor: default; }
td .name { display: inline-block; max-width: clamp(12em, calc(100cqw - 700px), 70em); overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; font-family: var(--cl-mono); font-size: 12px; }
td .kind { color: var(--cl-muted); font-size: 12px; }
td .spread { color: var(--cl-muted); }
td .bar { display: inline-block; width: 56px; height: 8px; margin-right: 8px; border-radius: 2px; background: var(--cl-line-soft); vertical-align: middle; overflow: hidden; text-align: left; }
td .bar i { display: block; height: 100%; background: var(--cl-accent); }
:host([data-view="narrow"]) td .bar { display: none; }
:host([data-view="narrow"]) td .name { max-width: clamp(11em, calc(100cqw - 560px), 70em); }
@media print { div.dt-layout-row:not(.dt-layout-table) { display: none !important; } }
`;

const KIND_LABELS = {
  cpu_op: "CPU op", user_annotation: "range", gpu_user_annotation: "GPU range", cuda_runtime: "runtime",
  cuda_driver: "driver", kernel: "kernel", gpu_memcpy: "copy", gpu_memset: "set", python_function: "Python",
  cuda_sync: "sync", overhead: "overhead",
};

const showTime = (key) => (_, type, row) => (type === "display" ? uiDuration(row[key]) : row[key]);

function showMean(_, type, row) {
  if (type !== "display") return row.mean;
  const spread = row.std !== null ? ` <span class="spread">± ${uiDuration(row.std)}</span>` : "";
  return `${uiDuration(row.mean)}${spread}`;
}

function showShare(_, type, row) {
  if (type !== "display") return row.share;
  return `<span class="bar"><i style="width:${row.share.toFixed(1)}%"></i></span>${uiPercent(row.share)}`;
}

function showName(_, type, row) {
  if (type !== "display") return row.name;
  return `<span class="name" title="${uiEscape(row.name)}">${uiEscape(row.name)}</span>`;
}

function showKind(_, type, row) {
  const label = KIND_LABELS[row.cat] ?? row.cat;
  return type === "display" ? `<span class="kind">${uiEscape(label)}</span>` : label;
}

const TABLE_COLUMNS = [
  { title: "Name", data: "name", render: showName },
  { title: "Kind", data: "cat", render: showKind },
  { title: "Count", data: "count", className: "number", render: (_, t, r) => (t === "display" ? uiCount(r.count) : r.count) },
  { title: "Total", data: "total", className: "number", render: showTime("total") },
  { title: "Self", data: "self", className: "number", render: showTime("self") },
  { title: "Mean ± sd", data: "mean", className: "number", render: showMean },
  { title: "Min", data: "min", className: "number", render: showTime("min") },
  { title: "Max", data: "max", className: "number", render: showTime("max") },
  { title: "Share of self", data: "share", className: "number", render: showShare },
].map((column) => ({ ...column, searchable: column.data === "name" || column.data === "cat", orderSequence: ["desc", "asc"] }));

const TABLE_SHARE = TABLE_COLUMNS.findIndex((column) => column.data === "share");
// Below these widths, in CSS pixels, columns give way: first the kind (and the bars), then the extremes.
const TABLE_YIELDS = [[840, ["cat"]], [660, ["min", "max"]]].map(([width, keys]) => [
  width, keys.map((key) => TABLE_COLUMNS.findIndex((column) => column.data === key)),
]);
const TABLE_SIDES = [["All", null], ["GPU", 1], ["CPU", 0]];

// Builds the table in `host`. `library` is itables' DataTables module, `styleSheet` its CSS text.
// Returns {update(mask, names), choose(names), setTheme(theme), rows(), destroy()}.
export function createTable(host, data, { library, styleSheet, theme, onNames }) {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const element = uiElement("table", { class: "display compact", "aria-label": "Costs by name" });
  shadow.replaceChildren(uiElement("style", {}, styleSheet), uiElement("style", {}, TABLE_STYLE), element);
  const DataTable = library.default;
  DataTable.ext.errMode = "throw";
  const basis = costBasis(data);
  const hasBoth = new Set(basis.device).size > 1;
  let rows = [];
  let side = null;
  let chosen = new Set();

  const fill = () => table.clear().rows.add(rows.filter((row) => side === null || row.side === side)).draw();
  function sideButtons() {
    const group = uiElement("div", { class: "sides", role: "group", "aria-label": "Where the time went" });
    for (const [label, value] of TABLE_SIDES) {
      const press = () => {
        side = value;
        for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === label));
        fill();
      };
      group.append(uiElement("button", { type: "button", "aria-pressed": String(value === side), onclick: press }, label));
    }
    return group;
  }

  const mark = (node, row) => {
    const isChosen = row.ids.some((id) => chosen.has(id));
    node.classList.toggle("chosen", isChosen);
    node.setAttribute("aria-selected", String(isChosen));
    node.tabIndex = 0;
  };
  const table = new DataTable(element, {
    columns: TABLE_COLUMNS,
    data: rows,
    order: [[TABLE_SHARE, "desc"]],
    pageLength: 10,
    lengthMenu: [10, 25, 50, 100, { label: "all", value: -1 }],
    layout: { topStart: hasBoth ? [sideButtons, "info"] : "info", topEnd: "search", bottomStart: "pageLength", bottomEnd: "paging" },
    language: {
      search: "", searchPlaceholder: "Filter names", info: "_START_–_END_ of _TOTAL_ names", infoEmpty: "no names",
      infoFiltered: "(of _MAX_)", lengthMenu: "_MENU_ a page", emptyTable: "Nothing is selected here",
      zeroRecords: "No name matches the filter",
    },
    autoWidth: false,
    deferRender: true,
    rowCallback: mark,
  });

  const toggle = (event) => {
    const node = event.composedPath().find((n) => n.tagName === "TR" && n.parentNode?.tagName === "TBODY");
    const row = node && table.row(node).data();
    if (!row) return;
    const isIn = row.ids.every((id) => chosen.has(id));
    const isAlone = isIn && chosen.size === row.ids.length;
    const many = event.ctrlKey || event.metaKey || event.shiftKey;
    const next = new Set(many ? chosen : []);
    for (const id of row.ids) {
      if (many && isIn) next.delete(id);
      else if (many || !isAlone) next.add(id);
    }
    onNames(next.size ? next : null);
  };
  element.addEventListener("click", toggle);
  element.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.composedPath()[0].tagName === "TR") {
      event.preventDefault();
      toggle(event);
    }
  });

  const api = {
    update(mask) {
      rows = aggregate(data, basis, mask);
      fill();
    },
    choose(names) {
      chosen = names ?? new Set();
      table.rows({ page: "current" }).every(function markRow() {
        mark(this.node(), this.data());
      });
    },
    setTheme: (name) => host.classList.toggle("dark", name === "dark"),
    rows: () => rows,
    destroy() {
      observer.disconnect();
      table.destroy();
      shadow.replaceChildren();
    },
  };
  // Where there is little room, what the other columns tell as well gives way.
  const fit = () => {
    const width = host.clientWidth;
    if (width === 0 || width === fitted) return;
    fitted = width;
    host.setAttribute("data-view", width < TABLE_YIELDS[0][0] ? "narrow" : "wide");
    for (const [least, columns] of TABLE_YIELDS) table.columns(columns).visible(width >= least);
  };
  let fitted = 0;
  const observer = new ResizeObserver(fit);
  observer.observe(host);
  fit();
  api.setTheme(theme);
  return api;
}
