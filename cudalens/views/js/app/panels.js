// Start the panels of a view. A panel that needs data fetches it; each shows its section when it has something to show.

import { createMetrics } from "../devices/metrics.js";
import { createTimeFlame } from "../flame/time_flame.js";
import { createGraphs } from "../graphs/graphs.js";
import { createMemoryMap } from "../memory/map.js";
import { createMemoryPlot } from "../memory/plot.js";
import { createRaces } from "../races/races.js";
import { element, findAll, untilOnScreen } from "../shared/dom.js";
import { inflate, inflateJson, loadLibrary } from "../shared/libraries.js";
import { buildElement } from "../shared/markup.js";
import { finish } from "../shared/slices.js";
import { createTabs } from "../shared/tabs.js";
import { makeTree } from "../shared/tree.js";
import { createTable } from "../table/table.js";
import { fitWindow, timelineExtent } from "../timeline/view.js";
import { copyButton, findingMarkdown } from "./copy.js";
import { addTryAllButton, addTryButton } from "./try_button.js";

/** @import { GraphsModel } from "../graphs/graphs.js" */
/** @import { Plotly, PlotSeries } from "../memory/plot.js" */
/** @import { MarkupElement } from "../shared/markup.js" */
/** @import { TraceData } from "../payload/payload.js" */
/** @import { RacesModel } from "../races/races.js" */
/** @import { DataTableClass } from "../table/datatables.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { App } from "./app.js" */

/**
 * The heading of a panel; where the panel is the subject of the page, only screen readers need it.
 *
 * @param {string} text
 * @param {boolean} isSeen
 */
function heading(text, isSeen) {
  return element("h3", { "aria-level": 2, class: isSeen ? null : "cl-unseen" }, text);
}

/** @param {App} app */
export async function startRaces({ source, parts, panels, isClosed }) {
  /** @type {RacesModel} */
  const model = await inflateJson(await source.races());
  if (isClosed()) return;
  const host = element("div", { class: "cudalens-races" });
  const { hasProfile, hasGraphs } = source.facts;
  parts.races.append(heading("Races", hasProfile || hasGraphs), host);
  parts.races.hidden = false;
  panels.races = createRaces(host, model, { onChoose: (race) => panels.timeline?.showRace(race.row) });
}

/** @param {App} app */
export async function startGraphs({ source, parts, panels, isClosed }) {
  /** @type {GraphsModel} */
  const model = await inflateJson(await source.graphs());
  if (isClosed()) return;
  const host = element("div", { class: "cudalens-graphs" });
  const { hasProfile, hasRaces } = source.facts;
  parts.graphs.append(heading("CUDA graphs", hasProfile || hasRaces), host);
  parts.graphs.hidden = false;
  panels.graphs = createGraphs(host, model);
}

/** @param {App} app */
export async function startMemoryMap(app) {
  const { source, parts } = app;
  const { memoryMap, memoryFirst } = source.facts;
  const bytes = await source.memory();
  if (app.isClosed()) return;
  const host = element("div", { class: "mm-host" });
  const tables = element("div", { class: "cudalens-memory" }, ...(memoryMap ? [buildElement(memoryMap)] : []));
  parts.memoryMap.append(heading("Memory", !memoryFirst), host, tables);
  parts.memoryMap.hidden = false;
  app.panels.memoryMap = await createMemoryMap(host, bytes, { theme: app.theme });
}

/**
 * The list of findings; a row selects its first piece of evidence.
 *
 * @param {App} app
 * @param {TraceData} data
 */
export function startFindings({ source, parts, store }, data) {
  if (!source.facts.findings) return;
  parts.findings.append(buildElement(source.facts.findings));
  const { tryFindings } = source;
  findAll(parts.findings, "tbody tr", HTMLElement).forEach((row, number) => {
    const text = findingMarkdown(row);
    row.lastElementChild?.append(" ", copyButton("Copy", "Copy this finding as Markdown", text));
    if (tryFindings) addTryButton(row, number + 1, tryFindings);
  });
  const table = parts.findings.querySelector("table");
  if (tryFindings && table) addTryAllButton(table, tryFindings);
  makeRowsPressable(parts.findings, "tbody tr[data-event]", (row) => {
    const event = data.eventOf(Number(row.dataset.event));
    if (event >= 0) store.set({ event, range: null, names: null }, "findings");
    return event >= 0;
  });
  parts.findings.hidden = false;
}

/**
 * The table of waits; a row shows the longest of its waits in the timeline.
 *
 * @param {App} app
 */
export function startSyncs({ source, parts, panels }) {
  if (!source.facts.syncs) return;
  parts.syncs.append(buildElement(source.facts.syncs));
  makeRowsPressable(parts.syncs, "tbody tr", (_, group) => {
    panels.timeline?.showSync(group);
    return true;
  });
  parts.syncs.hidden = false;
}

/**
 * Rows that a click or Enter chooses.
 *
 * @param {HTMLElement} host
 * @param {string} selector
 * @param {(row: HTMLElement, number: number) => boolean} show Returns whether there was something to show.
 */
function makeRowsPressable(host, selector, show) {
  const rows = findAll(host, selector, HTMLElement);
  rows.forEach((row, number) => {
    const press = () => {
      if (!show(row, number)) return;
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
    };
    row.tabIndex = 0;
    row.addEventListener("click", press);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") press();
    });
  });
}

/**
 * The tabs below the timeline: costs by name, by call path, and the sections that came with the page.
 *
 * @param {App} app
 * @param {TraceData} data
 */
export function startTabs(app, data) {
  const { parts, panels, source, store } = app;
  return createTabs(parts.table, "Costs", [
    { key: "table", title: "Operators and kernels", fill: (host) => host.append(parts.tableHost) },
    {
      key: "flame",
      title: "Flame graph",
      fill(host) {
        panels.flame = createTimeFlame(host, data, {
          theme: app.theme,
          baseline: source.facts.baseline,
          onEvent: (event) => store.set({ event, range: null, names: null }, "flame"),
        });
        finish(panels.flame.update(store.get()));
      },
      onShow: () => panels.flame?.shown(),
    },
    ...SECTION_TABS.flatMap(([key, title]) => {
      const tree = source.facts[key];
      return tree
        ? [{ key, title, fill: (/** @type {HTMLElement} */ host) => fillSection(app, data, host, key, tree) }]
        : [];
    }),
  ]);
}

/** @type {["lines" | "modules" | "steps", string][]} */
const SECTION_TABS = [
  ["lines", "Lines"],
  ["modules", "Modules"],
  ["steps", "Steps"],
];

/**
 * A section that came with the page; a row with an event selects it.
 *
 * @param {App} app
 * @param {TraceData} data
 * @param {HTMLElement} host
 * @param {string} name
 * @param {MarkupElement} tree
 */
function fillSection({ store }, data, host, name, tree) {
  const section = element("div", { class: `cudalens-${name}` }, buildElement(tree));
  for (const details of section.querySelectorAll("details:first-child")) details.setAttribute("open", "");
  makeTree(section);
  host.append(section);
  makeRowsPressable(section, "tbody tr[data-event]", (row) => {
    const event = data.eventOf(Number(row.dataset.event));
    if (event >= 0) store.set({ event, range: null, names: null }, name);
    return event >= 0;
  });
}

/**
 * @param {App} app
 * @param {TraceData} data
 */
export async function startTable(app, data) {
  const { asset, versions, sender } = app.source;
  const [library, style] = await Promise.all([
    loadLibrary("datatables.js", versions.datatables, asset, sender),
    asset("datatables.css").then(inflate),
  ]);
  if (app.isClosed()) return;
  app.panels.table = createTable(app.parts.tableHost, data, {
    DataTable: /** @type {DataTableClass} */ (library),
    styleSheet: new TextDecoder().decode(style),
    theme: app.theme,
    onNames: (names) => app.store.set({ names }, "table"),
  });
}

/**
 * The gauges below the timeline, on its axis.
 *
 * @param {App} app
 * @param {TraceData} data
 */
export function startMetrics({ source, parts, panels, theme }, data) {
  if (!data.metrics.length) return;
  const host = element("div", { class: "cl-metrics-host" });
  const heading = element("h3", { "aria-level": 2 }, "GPU readings", element("span", {}, source.facts.metrics ?? ""));
  parts.metrics.replaceChildren(heading, host);
  parts.metrics.hidden = false;
  const view = windowOf(data, data.metrics);
  panels.metrics = createMetrics(host, data.metrics, data.header.metrics.gauges, { theme, view });
}

/**
 * The curve of memory, once it comes on the screen: evaluating Plotly takes a third of the time in which a page opens.
 *
 * @param {App} app
 * @param {TraceData} data
 */
export async function startMemory(app, data) {
  if (app.isClosed()) return;
  const { parts, panels, source, store } = app;
  const series = memorySeries(data);
  const heading = element("h3", { "aria-level": 2 }, "Memory");
  if (panels.memoryMap || !series.length) {
    parts.memory.hidden = true;
    return;
  }
  const host = element(
    "div",
    { class: "cl-plot-host" },
    element("p", { class: "cl-hint" }, "Loading the memory curve…"),
  );
  parts.memory.replaceChildren(heading, host);
  await untilOnScreen(host, app.cleanups);
  const library = await loadLibrary("plotly.js", source.versions.plotly, source.asset, source.sender);
  if (app.isClosed()) return;
  host.replaceChildren();
  const plot = createMemoryPlot(host, series, {
    Plotly: /** @type {Plotly} */ (library),
    theme: app.theme,
    view: (data.n && panels.timeline?.getView()) || windowOf(data, series),
    onRange: (range) => store.set({ range }, "memory"),
  });
  panels.memory = plot;
  await plot.ready;
  const { range } = store.get();
  if (range) plot.setRange(range);
}

/**
 * A curve of allocated bytes per device; actions without a known total are left out.
 *
 * @param {TraceData} data
 * @returns {PlotSeries[]}
 */
function memorySeries(data) {
  return data.memory
    .map(({ label, ts, allocated }) => {
      const known = [...allocated.keys()].filter((i) => !Number.isNaN(allocated[i]));
      return {
        label,
        ts: Float64Array.from(known, (i) => ts[i]),
        values: Float64Array.from(known, (i) => allocated[i]),
      };
    })
    .filter((series) => series.ts.length);
}

/**
 * The window of the timeline; from the first to the last time of `series` in a trace without events.
 *
 * @param {TraceData} data
 * @param {{ ts: Float64Array }[]} series
 * @returns {TimeRange}
 */
function windowOf(data, series) {
  if (data.n) return fitWindow(timelineExtent(data, true));
  const ends = series.flatMap(({ ts }) => [ts[0], ts[ts.length - 1]]);
  return [Math.min(...ends), Math.max(...ends) + 1];
}
