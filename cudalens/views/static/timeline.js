// The stream timeline: lanes of device streams and threads on one canvas, for a mouse and without one.

import { assignRows, assignTones, eventAt, gatherRows } from "./lod.js";
import { THEME_SHADES, TIMELINE_THEME } from "./theme.js";
import { launchIndex } from "./timeline_arrows.js";
import { buildTimelineDom, fillLegend, showTip, styleTimelineDom } from "./timeline_dom.js";
import { createPainter, legendEntries, paintFrame, usePalette } from "./timeline_draw.js";
import { frameOf } from "./timeline_frame.js";
import { heldMotion, listenToKeys, listenToPointer } from "./timeline_input.js";
import { acrossLaunch, firstEvent, neighbour, searchNames, stepMatch } from "./timeline_nav.js";
import {
  TL_HEAD, TL_ROW, clampWindow, exactTime, fitWindow, laneAtY, layoutLanes, rowAtY, rowTop, spokenEvent, timelineExtent,
} from "./timeline_view.js";
import { uiCount, uiDuration, uiPlural } from "./ui.js";

const TL_TALLEST = 460;
const TL_LOWEST = 150;
const TL_SLACK_PX = 3;
const TL_FRAMES_KEPT = 2000;
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
 *   boxOf(index), the event's place on the canvas in px, for tests and overlays.
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
    launches: launchIndex(data), collapsed: new Set(), steps: stepRanges(data), chosen: null, names: null, search: null,
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

function measure(tl) {
  const { frame, stage, canvas } = tl.dom;
  const width = Math.max(1, frame.clientWidth);
  const height = Math.max(TL_HEAD + TL_ROW, frame.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  stage.style.height = `${Math.max(height, Math.ceil(tl.layout.total + TL_HEAD))}px`;
  const { size } = tl;
  if (size.width !== width || size.height !== height || size.ratio !== ratio) {
    tl.size = { width, height, ratio, gutter: Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    // A canvas that was just resized is blank until it is painted: do it before the browser shows it.
    if (tl.painter) paintNow(tl);
  } else askFrame(tl);
}

function paintNow(tl) {
  const began = performance.now();
  tl.scroll = tl.dom.frame.scrollTop;
  paintFrame(tl);
  tl.script.push(performance.now() - began);
  if (tl.script.length > TL_FRAMES_KEPT) tl.script.splice(0, TL_FRAMES_KEPT / 2);
}

function askFrame(tl) {
  if (tl.pending || tl.isGone) return;
  tl.pending = requestAnimationFrame((now) => {
    tl.pending = 0;
    if (tl.isGone) return;
    tl.beforeFrame?.(now);
    paintNow(tl);
  });
}

function moveTo(tl, view) {
  const next = clampWindow(view, tl.extent);
  if (next[0] === tl.view[0] && next[1] === tl.view[1]) return;
  tl.view = next;
  tl.options.onTime?.([...next]);
  askFrame(tl);
}

// Glides to a window, unless the reader asked for less motion.
function glideTo(tl, view) {
  const target = clampWindow(view, tl.extent);
  tl.held.clear();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return moveTo(tl, target);
  const from = [...tl.view];
  let began = null;
  tl.beforeFrame = (now) => {
    began ??= now;
    const share = Math.min(1, (now - began) / 180);
    const ease = 1 - (1 - share) ** 3;
    moveTo(tl, share < 1 ? from.map((t, k) => t + (target[k] - t) * ease) : target);
    if (share >= 1) tl.beforeFrame = null;
    else askFrame(tl);
  };
  askFrame(tl);
  return undefined;
}

// Dims what is neither among the names chosen outside nor found by the search.
function choose(tl) {
  const { data, names, search } = tl;
  if (names === null && search === null) tl.chosen = null;
  else {
    const wanted = new Uint8Array(data.header.names.length);
    for (let id = 0; id < wanted.length; id++) wanted[id] = +((names === null || names.has(id)) && (search === null || search.isHit[id]));
    const keep = new Uint8Array(data.n);
    for (let i = 0; i < data.n; i++) keep[i] = wanted[data.name[i]];
    tl.chosen = { keep, index: gatherRows(data, tl.rows, tl.tone, keep) };
  }
  askFrame(tl);
}

function relayout(tl) {
  tl.layout = layoutLanes(tl.rows.heights, tl.collapsed);
  measure(tl);
}

function announce(tl) {
  tl.options.onSelect?.({ range: tl.range && [...tl.range], event: tl.selected, names: tl.names && new Set(tl.names) });
}

// Brings event i into view: its lane by scrolling, its time by panning, and by zooming only where it could not be seen.
function reveal(tl, i, isZoomed = false) {
  const { data, view, dom, layout } = tl;
  const [t0, t1] = [data.start[i], data.start[i] + data.dur[i]];
  const lane = data.lane[i];
  if (tl.rows.row[i] >= layout.shown[lane] && tl.collapsed.delete(lane)) relayout(tl);
  const y = rowTop(tl.layout, lane, tl.rows.row[i]);
  const room = tl.size.height - TL_HEAD;
  if (y < tl.scroll) dom.frame.scrollTop = y - 8;
  else if (y + TL_ROW > tl.scroll + room) dom.frame.scrollTop = y + TL_ROW + 8 - room;
  const span = view[1] - view[0];
  const perPx = span / (tl.size.width - tl.size.gutter);
  if (isZoomed) glideTo(tl, aroundEvent(t0, t1, 4));
  else if (t1 - t0 < 3 * perPx) glideTo(tl, aroundEvent(t0, t1, 30));
  else if (t1 < view[0] + span * 0.02 || t0 > view[1] - span * 0.02) {
    glideTo(tl, [(t0 + t1 - span) / 2, (t0 + t1 + span) / 2]);
  }
  askFrame(tl);
}

// A window `times` as long as the event, which stands in its middle.
const aroundEvent = (t0, t1, times) => {
  const half = t1 > t0 ? ((t1 - t0) * times) / 2 : 500;
  return [(t0 + t1) / 2 - half, (t0 + t1) / 2 + half];
};

function focusEvent(tl, i) {
  if (i === null || i < 0) return;
  tl.focused = i;
  tl.focusLane = tl.data.lane[i];
  tl.dom.spoken.textContent = spokenEvent(tl.data, i);
  reveal(tl, i);
}

function tipLines(tl, i) {
  const { data } = tl;
  const { names, cats, lanes } = data.header;
  const lines = [names[data.name[i]].slice(0, 400) || "(no name)"];
  const self = lanes[data.lane[i]].kind === "host" && data.self[i] !== data.dur[i] ? `, self ${uiDuration(data.self[i])}` : "";
  lines.push(data.flags[i] & 1 ? "instant" : `${uiDuration(data.dur[i])}${self}`);
  lines.push(`${cats[data.cat[i]] || "no category"} · at ${exactTime(data.start[i])}`);
  if (data.launch[i] >= 0) {
    const by = data.launch[i];
    lines.push(`launched by ${names[data.name[by]].slice(0, 100)}, ${uiDuration(data.start[i] - data.start[by])} earlier`);
  }
  return lines;
}

// What the gestures do; every one of them is reachable from the keyboard or a button.
function createActions(tl) {
  const timeAt = (x) => {
    const frame = frameOf(tl);
    return frame.t0 + (x - tl.size.gutter) / frame.scale;
  };
  const eventUnder = (x, y) => {
    const place = rowAtY(tl.layout, y - TL_HEAD + tl.scroll);
    if (place === null || x < tl.size.gutter || y < TL_HEAD) return -1;
    const { index } = tl;
    return eventAt(index, index.laneRow[place.lane] + place.row, timeAt(x), TL_SLACK_PX / frameOf(tl).scale);
  };
  const act = {
    timeAt, eventUnder,
    show: (view) => { tl.beforeFrame = null; moveTo(tl, view); },
    pan: (px) => {
      const by = (px / (tl.size.width - tl.size.gutter)) * (tl.view[1] - tl.view[0]);
      act.show(tl.view.map((t) => t + by));
    },
    zoom: (factor, x) => {
      const share = x === null ? 0.5 : Math.min(Math.max((x - tl.size.gutter) / (tl.size.width - tl.size.gutter), 0), 1);
      const anchor = tl.view[0] + share * (tl.view[1] - tl.view[0]);
      act.show(tl.view.map((t) => anchor + (t - anchor) * factor));
    },
    centre: (t) => {
      const half = (tl.view[1] - tl.view[0]) / 2;
      act.show([t - half, t + half]);
    },
    fit: () => glideTo(tl, tl.whole),
    toEnd: (isEnd) => {
      const span = tl.view[1] - tl.view[0];
      const edge = span * 0.02;
      glideTo(tl, isEnd ? [tl.extent[1] + edge - span, tl.extent[1] + edge] : [tl.extent[0] - edge, tl.extent[0] - edge + span]);
    },
    hover: (x, y, isPlot) => {
      tl.pointerX = isPlot ? x : null;
      const found = isPlot ? eventUnder(x, y) : -1;
      const next = found < 0 ? null : found;
      if (next !== null) showTip(tl.dom, tipLines(tl, next), x + tl.dom.frame.offsetLeft, y + tl.dom.frame.offsetTop);
      else tl.dom.tip.hidden = true;
      if (next === tl.hover) return;
      tl.hover = next;
      tl.options.onHover?.(next);
      askFrame(tl);
    },
    click: (x, y) => {
      const found = eventUnder(x, y);
      tl.selected = tl.focused = found < 0 ? null : found;
      if (found >= 0) tl.dom.spoken.textContent = `selected ${spokenEvent(tl.data, found)}`;
      if (found < 0) tl.range = null;
      announce(tl);
      askFrame(tl);
    },
    zoomToEventAt: (x, y) => {
      const found = eventUnder(x, y);
      if (found >= 0) reveal(tl, found, true);
    },
    zoomToFocused: () => { if ((tl.focused ?? tl.selected) !== null) reveal(tl, tl.focused ?? tl.selected, true); },
    dragRange: (from, to) => { tl.range = [Math.min(from, to), Math.max(from, to)]; askFrame(tl); },
    finishRange: () => announce(tl),
    clearRange: () => { if (tl.range) { tl.range = null; announce(tl); askFrame(tl); } },
    toggleLane: (y) => toggleLane(tl, laneAtY(tl.layout, y - TL_HEAD + tl.scroll)),
    toggleFocusLane: () => toggleLane(tl, tl.focusLane >= 0 ? tl.focusLane : laneAtY(tl.layout, tl.scroll)),
    arrow: (direction) => {
      if (tl.focused !== null) focusEvent(tl, neighbour(tl, tl.focused, direction));
      else if (direction === "left" || direction === "right") act.pan((direction === "left" ? -1 : 1) * 80);
      else tl.dom.frame.scrollBy(0, (direction === "up" ? -2 : 2) * TL_ROW);
    },
    enter: () => {
      if (tl.focused === null) return focusEvent(tl, firstEvent(tl, laneAtY(tl.layout, tl.scroll)));
      tl.selected = tl.focused;
      tl.dom.spoken.textContent = `selected ${spokenEvent(tl.data, tl.focused)}`;
      announce(tl);
      return askFrame(tl);
    },
    follow: () => { if (tl.focused !== null) focusEvent(tl, acrossLaunch(tl, tl.focused)); },
    escape: () => escapeStep(tl),
    search: (text) => runSearch(tl, text),
    nextMatch: (by) => nextMatch(tl, by),
    hold: (key) => holdKey(tl, act, key),
    focusChanged: (hasFocus) => { tl.hasFocus = hasFocus; askFrame(tl); },
  };
  return act;
}

function toggleLane(tl, lane) {
  if (lane < 0 || tl.rows.heights[lane] < 2) return;
  if (!tl.collapsed.delete(lane)) tl.collapsed.add(lane);
  const { label } = tl.data.header.lanes[lane];
  tl.dom.spoken.textContent = `${label} ${tl.collapsed.has(lane) ? "folded" : "unfolded"}`;
  relayout(tl);
}

// Takes back one thing: the search, then the event in focus, then the selection. False where there was nothing.
function escapeStep(tl) {
  if (tl.search !== null) {
    tl.dom.search.value = "";
    runSearch(tl, "");
  } else if (tl.focused !== null && tl.focused !== tl.selected) tl.focused = null;
  else if (tl.selected !== null || tl.range !== null) {
    tl.selected = tl.range = tl.focused = null;
    announce(tl);
  } else return false;
  tl.isArmed = false;
  askFrame(tl);
  return true;
}

function runSearch(tl, text) {
  tl.search = searchNames(tl, text);
  tl.dom.matches.textContent = tl.search === null ? "" : uiPlural(tl.search.count, "match").replace("matchs", "matches");
  choose(tl);
  return tl.search?.count ?? 0;
}

function nextMatch(tl, by) {
  if (tl.search === null || tl.search.count === 0) return;
  const { found, ordinal } = stepMatch(tl, tl.search.at ?? -1, by);
  tl.search.at = found;
  tl.dom.matches.textContent = `${uiCount(ordinal)} of ${uiCount(tl.search.count)}`;
  tl.selected = found;
  focusEvent(tl, found);
  announce(tl);
}

// W A S D move while they are held, at a speed that does not depend on the frame rate; one step where motion is unwanted.
function holdKey(tl, act, key) {
  const step = (z, p, share) => {
    if (z) act.zoom(Math.exp(-z * 2.2 * share), tl.pointerX ?? null);
    if (p) act.pan(p * 900 * share);
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    step(...heldMotion([key]), 0.12);
    return;
  }
  if (tl.held.has(key)) return;
  tl.held.add(key);
  let before = null;
  const move = (now) => {
    const share = before === null ? 1 / 60 : Math.min(0.05, (now - before) / 1000);
    before = now;
    step(...heldMotion(tl.held), share);
    tl.beforeFrame = tl.held.size ? move : null;
    if (tl.held.size) askFrame(tl);
  };
  tl.beforeFrame = move;
  askFrame(tl);
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

function boxOf(tl, i) {
  const frame = frameOf(tl);
  const lane = tl.data.lane[i];
  if (tl.rows.row[i] >= tl.layout.shown[lane]) return null;
  const x = frame.x(tl.data.start[i]);
  return { x, y: frame.y(lane, tl.rows.row[i]), width: tl.data.dur[i] * frame.scale, height: TL_ROW - 1 };
}
