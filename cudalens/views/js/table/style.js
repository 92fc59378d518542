// The style sheet of the table's shadow root.

export const STYLE = `
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
div.dt-container .dt-info { display: inline-block; margin-left: 10px; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) { display: flex; flex-wrap: wrap; gap: 4px 8px; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) div.dt-layout-cell { display: flex; flex-wrap: wrap; align-items: center; gap: 4px 10px; text-align: left; }
div.dt-container.dt-container div.dt-layout-row.dt-layout-row:not(.dt-layout-table) div.dt-layout-cell > * { margin: 0; }
table.dataTable { width: 100% !important; border-collapse: collapse !important; font-variant-numeric: tabular-nums; table-layout: auto; }
table.dataTable > thead > tr > th .dt-column-header { gap: 4px; }
table.dataTable > thead > tr > th { border-bottom: 1px solid var(--cl-line) !important; padding: 6px 10px; font-weight: 600; font-size: 12px; color: var(--cl-muted); white-space: nowrap; text-align: left; }
table.dataTable > thead > tr > th.number, table.dataTable > tbody > tr > td.number { text-align: right; }
table.dataTable > tbody > tr > td { border-top: 1px solid var(--cl-line-soft); padding: 4px 10px; white-space: nowrap; box-shadow: none !important; color: inherit; }
table.dataTable > tbody > tr:first-child > td { border-top: 0; }
table.dataTable > tbody > tr { cursor: pointer; background: transparent !important; }
table.dataTable > tbody > tr:hover > td { background: var(--cl-hover); }
table.dataTable > tbody > tr.chosen > td { background: var(--cl-chosen); }
table.dataTable > tbody > tr.current > td { background: var(--cl-hover); }
table.dataTable > tbody > tr:is(.chosen, .current) > td:first-child { box-shadow: inset 3px 0 0 var(--cl-accent) !important; }
table.dataTable > tbody > tr > td.dt-empty { text-align: center; color: var(--cl-muted); padding: 18px; cursor: default; }
td .name { display: inline-block; max-width: clamp(16em, calc(100cqw - 700px), 70em); overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; font-family: var(--cl-mono); font-size: 12px; }
td .kind { color: var(--cl-muted); font-size: 12px; }
td .spread { color: var(--cl-muted); }
td .bar { display: inline-block; width: 56px; height: 8px; margin-right: 8px; border-radius: 2px; background: var(--cl-line-soft); vertical-align: middle; overflow: hidden; text-align: left; }
td .bar i { display: block; height: 100%; background: var(--cl-accent); }
:host([data-view="narrow"]) :is(td .bar, td .spread) { display: none; }
:host([data-view="narrow"]) td .name { max-width: clamp(12em, calc(100cqw - 460px), 70em); }
:host([data-slim]) td .name { max-width: clamp(12em, calc(100cqw - 250px), 70em); }
:host([data-view="whole"]) { overflow-x: auto; }
button.columns { display: none; border: 1px solid var(--cl-line); border-radius: 6px; background: none; color: inherit; font: inherit; font-size: 12px; padding: 3px 10px; cursor: pointer; }
button.columns[aria-pressed="true"] { background: var(--cl-chosen); }
:host(:is([data-view="narrow"], [data-view="whole"])) button.columns { display: inline-block; }
@media print { div.dt-layout-row:not(.dt-layout-table) { display: none !important; } }
`;
