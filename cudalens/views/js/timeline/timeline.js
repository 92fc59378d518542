// The stream timeline: lanes of device streams and threads on one canvas, for a mouse and without one.

import { assignRows, assignTones, gatherRows } from "./lod.js";
import { TIMELINE_THEME } from "../shared/theme.js";
import { createActions, runSearch } from "./actions.js";
import { launchIndex } from "./arrows.js";
import { buildTimelineDom, fillLegend, styleTimelineDom } from "./dom.js";
import { createPainter, legendEntries, usePalette } from "./draw.js";
import { frameOf } from "./frame.js";
import { listenToKeys, listenToPointer } from "./input.js";
import { askFrame, choose, measure, moveTo, paintNow, reveal } from "./moves.js";
import { raceMarks } from "./races.js";
import { syncMarks } from "./syncs.js";
import { TL_HEAD, TL_ROW, fitWindow, layoutLanes, timelineExtent } from "./view.js";

const TL_TALLEST = 460;
const TL_LOWEST = 150;
const TL_MOST_STEPS = 4000;

/**
 * Builds the timeline inside `root`.
 *
 * @param {HTMLElement} root Empty element; it keeps the timeline until destroy().
 * @param {object} data TraceData of decodePayload().
 * @param {object} options theme ("light" or "dark"), height (px; by default as tall as the lanes, 460 at most), onSelect
 *   ({range: [t0, t1] or null, event: index or null, names: Set of name ids or null}) after the user selects, onHover
 *   (index or null), onTime([t0, t1]) after the window moved. Times are ns from header.t0.
 * @returns {object} setTheme, fit, zoomTo, getView, select, setRange, setNames, search, focus, resize, stats, destroy; and
 *   raceOf(index), the race that an event is marked with; showRace(race); showSync(group), the longest wait of a row of the table; boxOf(index), the event's place on the canvas in px, for tests and overlays.
 */
export function createTimeline(root, data, options = {}) {
  const tl = createState(data, options);
  tl.dom = buildTimelineDom(root);
  tl.painter = createPainter(tl.dom.canvas, data);
  const act = createActions(tl);
  listenToPointer(tl, act);
  listenToKeys(tl, act);
  listenToTools(tl, act);
  setTimelineTheme(tl, options.theme ?? "light");
  setFrameHeight(tl);
  measure(tl);
  const watch = new ResizeObserver(() => measure(tl));
  watch.observe(tl.dom.frame);
  tl.cleanups.push(() => watch.disconnect());
  paintNow(tl);
  return publicFace(tl, act);
}

function createState(data, options) {
  const rows = assignRows(data);
  const tone = assignTones(data);
  const whole = fitWindow(timelineExtent(data, true));
  const tl = {
    data, options, rows, tone, whole, extent: timelineExtent(data), view: [...whole], index: gatherRows(data, rows, tone),
    launches: launchIndex(data), collapsed: new Set(), steps: stepRanges(data), races: raceMarks(data), syncs: syncMarks(data), chosen: null, names: null, search: null,
    range: null, selected: null, focused: null, hover: null, hasFocus: false, focusLane: -1, isArmed: false, drag: null,
    held: new Set(), scroll: 0, size: { width: 0, height: 0, gutter: 150, ratio: 1 }, script: [], pending: 0, cleanups: [],
  };
  const isHost = data.header.lanes.findIndex((lane) => lane.kind === "host" && lane.count > 0);
  tl.hostTone = isHost < 0 ? 0 : tl.index.tone[tl.index.first[tl.index.laneRow[isHost]]];
  tl.layout = layoutLanes(rows.heights, tl.collapsed);
  tl.listen = (node, type, handler, how) => {
    node.addEventListener(type, handler, how);
    tl.cleanups.push(() => node.removeEventListener(type, handler, how));
  };
  return tl;
}

// Host ranges of profiler steps, in time order.
function stepRanges(data) {
  const isStep = new Set(data.header.step_names);
  const steps = [];
  if (!isStep.size) return steps;
  for (let i = 0; i < data.n; i++) {
    if (isStep.has(data.name[i]) && data.header.lanes[data.lane[i]].kind === "host") {
      steps.push({ t0: data.start[i], t1: data.start[i] + data.dur[i], label: data.header.names[data.name[i]] });
    }
  }
  // More bands than this would be a pattern, not a help.
  return steps.length > TL_MOST_STEPS ? [] : steps.sort((a, b) => a.t0 - b.t0);
}

function setTimelineTheme(tl, mode) {
  tl.mode = mode === "dark" ? "dark" : "light";
  usePalette(tl, tl.mode);
  styleTimelineDom(tl.dom, TIMELINE_THEME[tl.mode]);
  fillLegend(tl.dom, legendEntries(tl));
  askFrame(tl);
}

function setFrameHeight(tl) {
  const wanted = tl.options.height ?? Math.min(TL_TALLEST, Math.max(TL_LOWEST, tl.layout.total + TL_HEAD));
  tl.dom.frame.style.height = `${Math.round(wanted) + 2}px`;
}

function listenToTools(tl, act) {
  const { dom } = tl;
  const press = (button, what) => tl.listen(button, "click", what);
  press(dom.zoomIn, () => act.zoom(0.5, null));
  press(dom.zoomOut, () => act.zoom(2, null));
  press(dom.fit, act.fit);
  press(dom.next, () => act.nextMatch(1));
  press(dom.previous, () => act.nextMatch(-1));
  tl.listen(dom.frame, "scroll", () => askFrame(tl), { passive: true });
}

function publicFace(tl, act) {
  const quietly = (change) => { change(); askFrame(tl); };
  return {
    setTheme: (name) => setTimelineTheme(tl, name),
    fit: act.fit,
    zoomTo: (t0, t1) => act.show([t0, t1]),
    getView: () => [...tl.view],
    select: (i) => quietly(() => { tl.selected = i === undefined ? null : i; if (i !== null && i !== undefined) reveal(tl, i); }),
    setRange: (t0, t1 = null) => quietly(() => { tl.range = t0 === null ? null : [t0, t1]; }),
    setNames: (names) => { tl.names = names === null ? null : new Set(names); choose(tl); },
    raceOf: (i) => tl.races.find((mark) => mark.event === i && i !== null)?.race ?? null,
    showRace: (race) => quietly(() => showMark(tl, tl.races.find((one) => one.race === race))),
    showSync: (group) => quietly(() => showMark(tl, tl.syncs.find((one) => one.group === group))),
    search: (text) => { tl.dom.search.value = text; return runSearch(tl, text); },
    focus: () => tl.dom.canvas.focus({ preventScroll: true }),
    resize: () => measure(tl),
    boxOf: (i) => boxOf(tl, i),
    stats: () => ({ frames: tl.script.length, script: [...tl.script] }),
    destroy: () => {
      tl.isGone = true;
      cancelAnimationFrame(tl.pending);
      for (const cleanup of tl.cleanups.splice(0)) cleanup();
      tl.dom.host.remove();
    },
  };
}

// Brings a mark into view; its event, where it has one, gets the focus.
function showMark(tl, mark) {
  if (!mark) return;
  if (mark.event >= 0) {
    tl.focused = mark.event;
    reveal(tl, mark.event);
  } else if (mark.at < tl.view[0] || mark.at > tl.view[1]) {
    const half = (tl.view[1] - tl.view[0]) / 2;
    moveTo(tl, [mark.at - half, mark.at + half]);
  }
}

function boxOf(tl, i) {
  const frame = frameOf(tl);
  const lane = tl.data.lane[i];
  if (tl.rows.row[i] >= tl.layout.shown[lane]) return null;
  const x = frame.x(tl.data.start[i]);
  return { x, y: frame.y(lane, tl.rows.row[i]), width: tl.data.dur[i] * frame.scale, height: TL_ROW - 1 };
}
