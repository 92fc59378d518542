// One view of one trace: the verdict, the timeline, details, the table of costs and the memory curve, linked by one
// selection. The same code draws the live widget and the offline report; only their `source` differs.

import { decodePayload } from "../payload/payload.js";
import { element } from "../shared/dom.js";
import { formatDuration } from "../shared/format.js";
import { KernelGone } from "../shared/model.js";
import { pageTheme, watchPageTheme } from "../shared/page_theme.js";
import { finish, runInFrames, runNow } from "../shared/slices.js";
import { createTimeline } from "../timeline/timeline.js";
import { renderDetails } from "./details.js";
import { createMarks } from "./marks.js";
import { rowsOfCutNames } from "./pandas.js";
import {
  startFindings,
  startGraphs,
  startMemory,
  startMemoryMap,
  startMetrics,
  startRaces,
  startSyncs,
  startTable,
  startTabs,
} from "./panels.js";
import { hashOf, shownOf } from "./permalink.js";
import { createSelectionStore, selectedMask } from "./selection.js";
import { showBar } from "./selection_bar.js";
import { buildSkeleton } from "./skeleton.js";

/** @import { MetricsView } from "../devices/metrics.js" */
/** @import { TimeFlame } from "../flame/time_flame.js" */
/** @import { GraphsView } from "../graphs/graphs.js" */
/** @import { MemoryMapView } from "../memory/map.js" */
/** @import { MemoryPlot } from "../memory/plot.js" */
/** @import { TraceData } from "../payload/payload.js" */
/** @import { RacesView } from "../races/races.js" */
/** @import { Step } from "../shared/slices.js" */
/** @import { TabsView } from "../shared/tabs.js" */
/** @import { ThemeName } from "../shared/theme.js" */
/** @import { TableView } from "../table/table.js" */
/** @import { TimelineView } from "../timeline/timeline.js" */
/** @import { TimeRange } from "../timeline/view.js" */
/** @import { MarksView } from "./marks.js" */
/** @import { Selection, SelectionStore } from "./selection.js" */
/** @import { Parts } from "./skeleton.js" */
/** @import { OutwardSelection, Source } from "./source.js" */

/**
 * The panels that are open.
 *
 * @typedef {object} Panels
 * @property {RacesView} [races]
 * @property {GraphsView} [graphs]
 * @property {MemoryMapView} [memoryMap]
 * @property {TimelineView} [timeline]
 * @property {MetricsView} [metrics]
 * @property {TableView} [table]
 * @property {TimeFlame} [flame]
 * @property {MemoryPlot} [memory]
 */

/**
 * @typedef {object} App
 * @property {HTMLElement} root
 * @property {Source} source
 * @property {Parts} parts
 * @property {SelectionStore} store
 * @property {Panels} panels
 * @property {MarksView | null} marks
 * @property {TabsView | null} tabs
 * @property {ThemeName} theme
 * @property {TraceData | null} data
 * @property {boolean} isOpen
 * @property {() => boolean} isClosed
 * @property {ReturnType<typeof setTimeout> | undefined} following
 * @property {Uint8Array | null | undefined} tableMask The events in the table; undefined before it is filled.
 * @property {Step[]} updating How the panels come to show the last selection.
 * @property {(() => void)[]} cleanups
 */

const FOLLOW_MS = 120;
// With more events than this, panels show a selection in later tasks than the timeline.
const MAX_AT_ONCE = 50_000;

/**
 * @param {HTMLElement} root
 * @param {Source} source
 */
export function createApp(root, source) {
  const theme = pageTheme();
  root.classList.add("cudalens");
  root.dataset.theme = theme;
  root.dataset.state = "loading";
  /** @type {App} */
  const app = {
    root,
    source,
    parts: buildSkeleton(root, source.facts),
    store: createSelectionStore(),
    panels: {},
    marks: null,
    tabs: null,
    theme,
    data: null,
    isOpen: true,
    isClosed: () => !app.isOpen,
    following: undefined,
    tableMask: undefined,
    updating: [],
    cleanups: [watchPageTheme((name) => applyTheme(app, name))],
  };
  const ready = startApp(app).catch((error) => app.isOpen && showError(app, error));
  return {
    ready,
    get data() {
      return app.data;
    },
    panels: app.panels,
    get tabs() {
      return app.tabs;
    },
    selection: app.store,
    /** @param {string} text Shown in the place of the timeline until it is there. */
    showStatus(text) {
      app.parts.status.textContent = text;
    },
    setTheme: (/** @type {ThemeName} */ name) => applyTheme(app, name),
    destroy: () => destroyView(app),
  };
}

/** @param {App} app */
async function startApp(app) {
  const { source } = app;
  const { hasRaces, hasGraphs, hasProfile, memoryFirst, memoryAlone } = source.facts;
  if (hasRaces) await startPanel(app, "list of races", () => startRaces(app));
  if (hasGraphs) await startPanel(app, "graph tree", () => startGraphs(app));
  if (app.isClosed()) return;
  if (memoryFirst) await startPanel(app, "memory map", () => startMemoryMap(app));
  watchWidth(app);
  if (!hasProfile || memoryAlone) {
    await finishWithoutEvents(app);
    return;
  }
  const data = await decodePayload(await source.payload());
  if (app.isClosed()) return;
  app.data = data;
  await startEvents(app, data);
}

/**
 * The timeline and the panels that need events.
 *
 * @param {App} app
 * @param {TraceData} data
 */
async function startEvents(app, data) {
  const { parts, source, root } = app;
  source.onData?.();
  parts.status.remove();
  app.panels.timeline = createTimeline(parts.timeline, data, {
    theme: app.theme,
    onSelect: (selection) => app.store.set(selection, "timeline"),
    onTime: (view) => followTimeline(app, [...view]),
  });
  describePart(app, data);
  startMarks(app);
  startMetrics(app, data);
  startFindings(app, data);
  startSyncs(app);
  if (source.facts.memoryMap && !source.facts.memoryFirst) {
    await startPanel(app, "memory map", () => startMemoryMap(app));
  }
  app.store.subscribe((selection, origin) => applySelection(app, data, selection, origin));
  app.tabs = startTabs(app, data);
  parts.table.hidden = false;
  parts.memory.hidden = false;
  await nextPaint();
  root.dataset.state = "painted";
  source.onPaint?.();
  // The timeline is on screen. The libraries of the other panels may load slowly, and each may fail.
  await Promise.all([
    startPanel(app, "table", async () => {
      await startTable(app, data);
      finish(sumTable(app, data, app.store.get()));
      showTable(app, data, app.store.get());
    }),
    startPanel(app, "list of details", () => data.detailsReady),
  ]);
  // The table, which is above it, has its height.
  void startPanel(app, "memory curve", () => startMemory(app, data));
  if (app.isOpen && source.hash) followLink(app, data, source.hash);
  if (app.isOpen) root.dataset.state = "ready";
}

/**
 * Says which events a page of limited size has.
 *
 * @param {App} app
 * @param {TraceData} data
 */
function describePart({ parts }, { n, header }) {
  if (!header.first_row) return;
  const [all, shown] = [header.num_all, n].map((count) => count.toLocaleString("en"));
  parts.part.textContent =
    `This page has the last ${shown} of ${all} events, from ${formatDuration(header.begin)} on: the timeline, ` +
    "the table of operators and kernels, the flame graph, the memory curve and the readings show these. " +
    "Verdict, findings, lines, modules and steps are of the whole run.";
  parts.part.hidden = false;
}

/** @param {App} app */
function startMarks(app) {
  const { source, panels, store, parts } = app;
  app.marks = createMarks(parts.marks, source.facts.marks, {
    onChange(marks) {
      panels.timeline?.setMarks(marks);
      source.onMarks?.(marks);
    },
    onShow({ at, dur }) {
      const room = Math.max(dur * 0.5, 500);
      panels.timeline?.zoomTo(at - room, at + dur + room);
      if (dur) store.set({ range: [at, at + dur], event: null }, "marks");
    },
  });
  panels.timeline?.setMarks(app.marks.marks);
}

/**
 * A run without events has no timeline, and nothing else to wait for.
 *
 * @param {App} app
 */
async function finishWithoutEvents(app) {
  app.parts.status.remove();
  app.parts.timeline.hidden = true;
  app.source.onData?.();
  await nextPaint();
  app.source.onPaint?.();
  if (app.isOpen && app.root.dataset.state !== "failed") app.root.dataset.state = "ready";
}

/** @returns {Promise<void>} */
function nextPaint() {
  return new Promise((done) => {
    // A hidden tab paints nothing, so a timer takes the place of the frame.
    const timer = setTimeout(done, 250);
    requestAnimationFrame(() =>
      setTimeout(() => {
        clearTimeout(timer);
        done();
      }),
    );
  });
}

/**
 * @param {App} app
 * @param {string} name
 * @param {() => Promise<void>} start
 */
async function startPanel(app, name, start) {
  try {
    await start();
  } catch (error) {
    if (app.isOpen) showError(app, error, `The ${name} cannot be shown`);
  }
}

/**
 * The memory curve shows the timeline's window once that has stopped moving: Plotly is too slow for every frame of a
 * pan.
 *
 * @param {App} app
 * @param {TimeRange} view
 */
function followTimeline(app, view) {
  app.panels.metrics?.setView(view);
  clearTimeout(app.following);
  app.following = setTimeout(() => app.isOpen && app.panels.memory?.setView(view), FOLLOW_MS);
}

/**
 * @param {App} app
 * @param {TraceData} data
 * @param {Selection} selection
 * @param {string} origin The panel that made the change.
 */
function applySelection(app, data, selection, origin) {
  const { timeline, memory, memoryMap, races } = app.panels;
  const { range, event, names } = selection;
  if (origin !== "timeline") {
    timeline?.setRange(range?.[0] ?? null, range?.[1]);
    timeline?.setNames(names);
    timeline?.select(event);
  }
  if (origin !== "memory") memory?.setRange(range);
  if (range) memoryMap?.showStretch(range, data.header.t0);
  app.parts.details.hidden = event === null;
  renderDetails(app.parts.details, data, event, app.store, timeline);
  const race = timeline?.raceOf(event) ?? null;
  if (race !== null) races?.choose(race);
  app.source.onSelect?.(outward(data, selection));
  /** @type {Step[]} */
  const steps = [
    () => void selectedMask(data, selection),
    () =>
      showBar(app.parts.bar, data, app.store, { link: () => linkTo(app, data), mark: (one) => app.marks?.add(one) }),
    () => sumTable(app, data, selection),
    () => app.panels.table?.load(),
    () => showTable(app, data, selection),
    () => app.panels.flame?.update(selection),
  ];
  if (data.n > MAX_AT_ONCE) runLater(app, steps);
  else runNow(steps);
}

/**
 * Carries out `steps` in frames of their own; a later call replaces the steps that are left.
 *
 * @param {App} app
 * @param {Step[]} steps
 */
async function runLater(app, steps) {
  app.updating = steps;
  await runInFrames(steps, nextPaint, () => !app.isOpen || app.updating !== steps);
}

/**
 * The address of what a report shows; null in a notebook.
 *
 * @param {App} app
 * @param {TraceData} data
 */
function linkTo({ source, panels, store, marks }, data) {
  if (!source.address || !panels.timeline) return null;
  return source.address(hashOf(data, panels.timeline.getView(), store.get(), marks?.marks));
}

/**
 * Shows what the address of a report asks for.
 *
 * @param {App} app
 * @param {TraceData} data
 * @param {string} hash
 */
function followLink({ panels, store, marks: list }, data, hash) {
  const { view, selection, marks } = shownOf(data, hash);
  if (marks.length && list) {
    list.replace(marks);
    panels.timeline?.setMarks(list.marks);
  }
  if (Object.keys(selection).length) store.set(selection, "link");
  if (view) panels.timeline?.zoomTo(...view);
}

/**
 * A range narrows the table. Selected names and events do not: their rows are marked.
 *
 * @param {App} app
 * @param {TraceData} data
 * @param {Selection} selection
 */
function* sumTable(app, data, selection) {
  const { table } = app.panels;
  const mask = selectedMask(data, { ...selection, names: null, event: null });
  if (table && mask !== app.tableMask) yield* table.sum(mask);
  if (table) app.tableMask = mask;
}

/**
 * @param {App} app
 * @param {TraceData} data
 * @param {Selection} selection
 */
function showTable({ panels: { table } }, data, { names, event }) {
  table?.update();
  table?.choose(names, event === null ? null : data.name[event]);
}

/**
 * @param {TraceData} data
 * @param {Selection} selection
 * @returns {OutwardSelection}
 */
function outward(data, { range, event, names }) {
  return {
    range: range && [...range],
    event: event === null ? null : data.rowOf(event),
    names: names && [...names].map((id) => data.header.names[id]),
    name_rows: names && rowsOfCutNames(data, names),
  };
}

/** @param {App} app */
function watchWidth(app) {
  let width = app.root.clientWidth;
  const observer = new ResizeObserver(() => {
    if (app.root.clientWidth === width) return;
    width = app.root.clientWidth;
    app.panels.memory?.resize();
    app.panels.flame?.resize();
    app.panels.metrics?.resize();
    app.panels.memoryMap?.resize();
  });
  observer.observe(app.root);
  app.cleanups.push(() => observer.disconnect());
}

/**
 * @param {App} app
 * @param {ThemeName} theme
 */
function applyTheme(app, theme) {
  app.theme = theme;
  app.root.dataset.theme = theme;
  for (const panel of Object.values(app.panels)) panel.setTheme(theme);
}

/**
 * @param {App} app
 * @param {unknown} error
 * @param {string} [what]
 */
function showError({ root, parts, source, data }, error, what = "The live view cannot be shown") {
  const isGone = error instanceof KernelGone;
  if (isGone && !data) {
    root.dataset.state = "failed";
    source.onGone?.();
    return;
  }
  parts.status.remove();
  parts.message.hidden = false;
  parts.message.append(element("p", {}, `${what}: ${error instanceof Error ? error.message : error}`));
  root.dataset.state = "failed";
  source.onFail?.();
  if (!isGone) console.error(error);
}

/** @param {App} app */
function destroyView(app) {
  app.isOpen = false;
  clearTimeout(app.following);
  for (const panel of Object.values(app.panels)) panel.destroy();
  for (const cleanup of app.cleanups.splice(0)) cleanup();
  app.root.replaceChildren();
}
