// One view of one trace: the verdict, the timeline, details, the table of costs and the memory curve, linked by one
// selection. The same code draws the live widget and the offline report; only their `source` differs:
//   facts      {verdict, badge, notes, memoryHint, hasRaces, hasGraphs, graphsFirst, hasProfile}   small JSON
//   payload()  -> Promise<Uint8Array>                    the binary columns
//   races()    -> Promise<Uint8Array>                    gzipped JSON of the races, where there are any
//   graphs()   -> Promise<Uint8Array>                    gzipped JSON of the graphs, where there are any
//   memory()   -> Promise<Uint8Array>                    the binary columns of the memory map, where there is one
//   asset(name) -> Promise<Uint8Array>                   gzipped: "datatables.js", "datatables.css", "plotly.js"
//   versions   {datatables, plotly}                      keys of the page's shared libraries
//   onSelect({range, event, names})                      event as a row of trace.events, names as text

import { renderDetails } from "./details.js";
import { createGraphs } from "../graphs/graphs.js";
import { buildMarkup } from "../shared/markup.js";
import { createMemory } from "../memory/plot.js";
import { createMemoryMap } from "../memory/map.js";
import { createMetrics } from "../devices/metrics.js";
import { inflate, loadLibrary } from "../shared/libraries.js";
import { decodePayload } from "../payload/payload.js";
import { createRaces } from "../races/races.js";
import { createSelectionStore, selectedMask } from "./selection.js";
import { createTable } from "../table/table.js";
import { createTimeline } from "../timeline/timeline.js";
import { fitWindow, timelineExtent } from "../timeline/view.js";
import { uiCount, uiDuration, uiElement, uiPageTheme, uiPlural, uiWatchTheme } from "../shared/dom.js";

const FOLLOW_MS = 120;

export function createApp(root, source) {
  const app = { root, source, store: createSelectionStore(), panels: {}, cleanups: [], isOpen: true };
  app.theme = uiPageTheme();
  root.classList.add("cudalens");
  root.dataset.theme = app.theme;
  root.dataset.state = "loading";
  app.parts = buildSkeleton(app);
  app.cleanups.push(uiWatchTheme((theme) => setAppTheme(app, theme)));
  app.ready = startApp(app).catch((error) => showAppError(app, error));
  return {
    ready: app.ready,
    get data() { return app.data; },
    panels: app.panels,
    selection: app.store,
    // What is said in the timeline's place until it is there.
    say: (text) => { app.parts.status.textContent = text; },
    setTheme: (theme) => setAppTheme(app, theme),
    destroy: () => destroyApp(app),
  };
}

function buildSkeleton(app) {
  const { facts } = app.source;
  const parts = {
    verdict: uiElement("p", { class: "cl-verdict" }, ...verdictParts(facts.verdict)),
    bar: uiElement("div", { class: "cl-bar", hidden: true }),
    timeline: uiElement("div", { class: "cl-timeline" }),
    metrics: uiElement("section", { class: "cl-metrics", "aria-label": "Readings of the GPUs", hidden: true }),
    findings: uiElement("section", { class: "cudalens-findings", "aria-label": "Findings", hidden: true }),
    syncs: uiElement("section", { class: "cudalens-syncs", "aria-label": "Waits for the GPU", hidden: true }),
    details: uiElement("section", { class: "cl-panel cl-details", "aria-label": "Details of the selected event" }),
    tableHost: uiElement("div", { class: "cl-table-host" }),
    memory: uiElement("section", { class: "cl-panel cl-memory", "aria-label": "Memory curve" }),
    memoryMap: uiElement("section", { class: "cl-memory-map", "aria-label": "Memory", hidden: true }),
    races: uiElement("section", { class: "cl-races", "aria-label": "Races", hidden: true }),
    graphs: uiElement("section", { class: "cl-graphs", "aria-label": "CUDA graphs", hidden: true }),
    message: uiElement("div", { class: "cl-message", role: "alert", hidden: true }),
    status: uiElement("p", { class: "cl-hint cl-status" }, "Loading the timeline…"),
  };
  const badge = facts.badge && uiElement("span", { class: "cl-badge" }, facts.badge);
  parts.verdict.prepend(...(badge ? [badge, " "] : []));
  const table = uiElement("section", { class: "cl-panel cl-table", "aria-label": "Costs by name" },
    uiElement("h3", {}, "Operators and kernels"), parts.tableHost);
  const found = facts.graphsFirst ? [parts.graphs, parts.races] : [parts.races, parts.graphs];
  app.root.replaceChildren(parts.verdict, ...noteList(facts.notes), parts.message, parts.status, ...found, parts.findings,
    ...(facts.memoryFirst ? [parts.memoryMap] : []), parts.timeline, parts.metrics, parts.syncs, parts.bar, uiElement("div", { class: "cl-columns" }, table, parts.details), parts.memory,
    ...(facts.memoryFirst ? [] : [parts.memoryMap]));
  for (const part of [table, parts.details, parts.memory]) part.hidden = true;
  parts.table = table;
  return parts;
}

// The answer stands out; what supports it follows in plain weight.
function verdictParts(verdict) {
  const at = verdict.indexOf("; ");
  return at < 0 ? [uiElement("strong", {}, verdict)] : [uiElement("strong", {}, verdict.slice(0, at)), verdict.slice(at)];
}

function noteList(notes = []) {
  if (!notes.length) return [];
  return [uiElement("ul", { class: "cl-notes" }, ...notes.map((note) => uiElement("li", {}, note)))];
}

async function startApp(app) {
  const { parts, source, root } = app;
  if (source.facts.hasRaces) await startPanel(app, "list of races", startRaces);
  if (source.facts.hasGraphs) await startPanel(app, "graph tree", startGraphs);
  if (!app.isOpen) return;
  const { memoryMap, memoryFirst, memoryAlone } = source.facts;
  if (memoryFirst) await startPanel(app, "memory map", startMemoryMap);
  if (!source.facts.hasProfile || memoryAlone) {
    await finishWithoutEvents(app);
    return;
  }
  app.data = await decodePayload(await source.payload());
  if (!app.isOpen) return;
  source.onData?.();
  parts.status.remove();
  app.panels.timeline = createTimeline(parts.timeline, app.data, {
    theme: app.theme,
    onSelect: (selection) => app.store.set(selection, "timeline"),
    onTime: (view) => followTimeline(app, [...view]),
  });
  startMetrics(app);
  startFindings(app);
  startSyncs(app);
  if (memoryMap && !memoryFirst) await startPanel(app, "memory map", startMemoryMap);
  app.store.subscribe((selection, origin) => applySelection(app, selection, origin));
  parts.table.hidden = parts.memory.hidden = false;
  watchWidth(app);
  await nextPaint();
  root.dataset.state = "painted";
  source.onPaint?.();
  // The timeline is on screen; the libraries of the other panels may take their time, and may fail one by one.
  await Promise.all([
    startPanel(app, "table", startTable),
    startPanel(app, "memory curve", startMemory),
    startPanel(app, "list of details", async () => await app.data.detailsReady),
  ]);
  if (app.isOpen) root.dataset.state = "ready";
}

async function startRaces(app) {
  const { parts, source } = app;
  const model = JSON.parse(new TextDecoder().decode(await inflate(await source.races())));
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "cudalens-races" });
  const { hasProfile, hasGraphs } = source.facts;
  parts.races.append(...(hasProfile || hasGraphs ? [uiElement("h3", {}, "Races")] : []), host);
  parts.races.hidden = false;
  app.panels.races = createRaces(host, model, { onChoose: (race) => app.panels.timeline?.showRace(race.row) });
}

async function startMemoryMap(app) {
  const { parts, source } = app;
  const bytes = await source.memory();
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "mm-host" });
  const tables = source.facts.memoryMap.map(buildMarkup);
  parts.memoryMap.append(...(source.facts.memoryFirst ? [] : [uiElement("h3", {}, "Memory")]), host, uiElement("div", { class: "cudalens-memory" }, ...tables));
  parts.memoryMap.hidden = false;
  app.panels.memoryMap = await createMemoryMap(host, bytes, { theme: app.theme });
  watchWidth(app);
}

async function startGraphs(app) {
  const { parts, source } = app;
  const model = JSON.parse(new TextDecoder().decode(await inflate(await source.graphs())));
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "cudalens-graphs" });
  const { hasProfile, hasRaces } = source.facts;
  parts.graphs.append(...(hasProfile || hasRaces ? [uiElement("h3", {}, "CUDA graphs")] : []), host);
  parts.graphs.hidden = false;
  app.panels.graphs = createGraphs(host, model);
}

// A run that was watched for races or graphs and not profiled: there is no timeline, and nothing else to wait for.
async function finishWithoutEvents(app) {
  app.parts.status.remove();
  app.parts.timeline.hidden = true;
  app.source.onData?.();
  await nextPaint();
  app.source.onPaint?.();
  if (app.isOpen && app.root.dataset.state !== "failed") app.root.dataset.state = "ready";
}

const nextPaint = () => new Promise((done) => {
  // A hidden tab paints nothing: a timer stands in for the frame that will not come.
  const timer = setTimeout(done, 250);
  requestAnimationFrame(() => setTimeout(() => { clearTimeout(timer); done(); }));
});

async function startPanel(app, name, start) {
  try {
    await start(app);
  } catch (error) {
    if (app.isOpen) showAppError(app, error, `The ${name} cannot be shown`);
  }
}

// The list of findings; a row selects its first piece of evidence.
function startFindings(app) {
  const { parts, source, data } = app;
  if (!source.facts.findings) return;
  parts.findings.append(buildMarkup(source.facts.findings));
  const rows = [...parts.findings.querySelectorAll("tbody tr[data-event]")];
  for (const row of rows) {
    const show = () => {
      const event = data.row.indexOf(Number(row.dataset.event));
      if (event < 0) return;
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
      app.store.set({ event, range: null, names: null }, "findings");
    };
    row.tabIndex = 0;
    row.addEventListener("click", show);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") show(); });
  }
  parts.findings.hidden = false;
}

// The table of waits; a row shows the longest of its waits in the timeline.
function startSyncs(app) {
  const { parts, source } = app;
  if (!source.facts.syncs) return;
  parts.syncs.append(buildMarkup(source.facts.syncs));
  const rows = [...parts.syncs.querySelectorAll("tbody tr")];
  rows.forEach((row, group) => {
    const show = () => {
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
      app.panels.timeline.showSync(group);
    };
    row.tabIndex = 0;
    row.addEventListener("click", show);
    row.addEventListener("keydown", (event) => { if (event.key === "Enter") show(); });
  });
  parts.syncs.hidden = false;
}

async function startTable(app) {
  const { asset, versions } = app.source;
  const [library, style] = await Promise.all([
    loadLibrary("datatables.js", versions.datatables, asset),
    asset("datatables.css").then(inflate),
  ]);
  if (!app.isOpen) return;
  app.panels.table = createTable(app.parts.tableHost, app.data, {
    library,
    styleSheet: new TextDecoder().decode(style),
    theme: app.theme,
    onNames: (names) => app.store.set({ names }, "table"),
  });
  updateTable(app, app.store.get(), "start");
}

// The gauges stand beneath the timeline, on its axis.
function startMetrics(app) {
  const { parts, data, source } = app;
  if (!data.metrics.length) return;
  const host = uiElement("div", { class: "cl-metrics-host" });
  parts.metrics.replaceChildren(uiElement("h3", {}, "GPU readings", uiElement("span", {}, source.facts.metrics ?? "")), host);
  parts.metrics.hidden = false;
  app.panels.metrics = createMetrics(host, data.metrics, data.header.metrics.gauges, {
    theme: app.theme,
    view: data.n ? fitWindow(timelineExtent(data, true)) : seriesWindow(data.metrics),
  });
}

async function startMemory(app) {
  const { parts, data, source } = app;
  const series = memorySeries(data);
  const heading = uiElement("h3", {}, "Memory");
  if (app.panels.memoryMap) {
    parts.memory.hidden = true;
    return;
  }
  if (!series.length) {
    parts.memory.replaceChildren(heading, uiElement("p", { class: "cl-hint" }, source.facts.memoryHint));
    return;
  }
  const host = uiElement("div", { class: "cl-plot-host" });
  parts.memory.replaceChildren(heading, host);
  const library = await loadLibrary("plotly.js", source.versions.plotly, source.asset);
  if (!app.isOpen) return;
  app.panels.memory = createMemory(host, series, {
    Plotly: library.default,
    theme: app.theme,
    view: data.n ? fitWindow(timelineExtent(data, true)) : seriesWindow(series),
    onRange: (range) => app.store.set({ range }, "memory"),
  });
  await app.panels.memory.ready;
  const { range } = app.store.get();
  if (range) app.panels.memory.setRange(range);
}

// A curve of allocated bytes per device, as {label, ts, values}; actions that tell no total are left out.
function memorySeries(data) {
  return data.memory.map(({ label, ts, allocated }) => {
    const known = [...allocated.keys()].filter((i) => !Number.isNaN(allocated[i]));
    return { label, ts: Float64Array.from(known, (i) => ts[i]), values: Float64Array.from(known, (i) => allocated[i]) };
  }).filter((series) => series.ts.length);
}

// First and last time of the curves, for a trace that holds no event.
function seriesWindow(series) {
  const ends = series.flatMap(({ ts }) => [ts[0], ts[ts.length - 1]]);
  return [Math.min(...ends), Math.max(...ends) + 1];
}

// The memory curve shows the timeline's window, once that has come to rest: Plotly is no part of a pan's frames.
function followTimeline(app, view) {
  app.panels.metrics?.setView(view);
  clearTimeout(app.following);
  app.following = setTimeout(() => app.isOpen && app.panels.memory?.setView(view), FOLLOW_MS);
}

function applySelection(app, selection, origin) {
  const { timeline, memory } = app.panels;
  if (origin !== "timeline") {
    timeline.setRange(...(selection.range ?? [null]));
    timeline.setNames(selection.names);
    timeline.select(selection.event);
  }
  if (origin !== "memory") memory?.setRange(selection.range);
  if (selection.range) app.panels.memoryMap?.showStretch(selection.range, app.data.header.t0);
  updateTable(app, selection, origin);
  showDetails(app, selection.event);
  const race = selection.event === null ? null : timeline.raceOf(selection.event);
  if (race !== null) app.panels.races?.choose(race);
  showBar(app, selection);
  app.source.onSelect?.(outward(app.data, selection));
}

// The table stays whole while its own rows are being picked; any other choice narrows it.
function updateTable(app, selection, origin) {
  const { table } = app.panels;
  if (!table) return;
  if (origin !== "table") table.update(selectedMask(app.data, { ...selection, names: null }));
  table.choose(selection.names);
}

function showDetails(app, event) {
  const { details } = app.parts;
  details.hidden = event === null;
  renderDetails(details, app.data, event);
}

// The selection in terms that hold outside of this page: rows of trace.events, and names as text.
function outward(data, { range, event, names }) {
  return {
    range: range && [...range],
    event: event === null ? null : data.row[event],
    names: names && [...names].map((id) => data.header.names[id]),
  };
}

function showBar(app, selection) {
  const { bar } = app.parts;
  bar.hidden = app.store.isEmpty();
  if (bar.hidden) return;
  const mask = selectedMask(app.data, selection);
  const number = mask.reduce((sum, one) => sum + one, 0);
  const chips = selectionTexts(app.data, selection).map(([key, text]) => selectionChip(app, key, text));
  bar.replaceChildren(
    uiElement("span", { class: "cl-bar-count" }, `${uiPlural(number, "event")} of ${uiCount(app.data.n)} selected`),
    ...chips,
    uiElement("button", { class: "cl-button cl-clear", type: "button", onclick: () => app.store.clear("bar") }, "Clear selection"),
  );
}

function selectionTexts(data, { range, event, names }) {
  const texts = [];
  if (range) texts.push(["range", `${uiDuration(range[0])} – ${uiDuration(range[1])} (${uiDuration(range[1] - range[0])})`]);
  if (event !== null) texts.push(["event", `within ${data.header.names[data.name[event]]}`]);
  if (names) {
    const first = data.header.names[names.values().next().value];
    texts.push(["names", names.size === 1 ? first : `${first} and ${names.size - 1} more`]);
  }
  return texts;
}

function selectionChip(app, key, text) {
  const drop = () => app.store.set({ [key]: null }, "bar");
  return uiElement("span", { class: "cl-chip", title: text }, uiElement("span", {}, text),
    uiElement("button", { type: "button", "aria-label": `Stop selecting ${text}`, onclick: drop }, "×"));
}

function watchWidth(app) {
  let width = app.root.clientWidth;
  const observer = new ResizeObserver(() => {
    if (app.root.clientWidth === width) return;
    width = app.root.clientWidth;
    app.panels.memory?.resize();
    app.panels.metrics?.resize();
    app.panels.memoryMap?.resize();
  });
  observer.observe(app.root);
  app.cleanups.push(() => observer.disconnect());
}

function setAppTheme(app, theme) {
  app.theme = theme;
  app.root.dataset.theme = theme;
  for (const panel of Object.values(app.panels)) panel.setTheme(theme);
}

export function showAppError(app, error, what = "The live view cannot be shown") {
  const { message, status } = app.parts;
  status.remove();
  message.hidden = false;
  message.append(uiElement("p", {}, `${what}: ${error?.message ?? error}`));
  app.root.dataset.state = "failed";
  app.source.onFail?.();
  console.error(error);
}

function destroyApp(app) {
  app.isOpen = false;
  clearTimeout(app.following);
  for (const panel of Object.values(app.panels)) panel.destroy();
  for (const cleanup of app.cleanups.splice(0)) cleanup();
  app.root.replaceChildren();
}
