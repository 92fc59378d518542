// How the timeline changes: its size, its window, what is chosen, and the frame that shows it.

import { paintFrame } from "./draw.js";
import { pinnedHeight } from "./frame.js";
import { drawnEvent, gatherRows } from "./lod.js";
import { clampWindow, HEAD_HEIGHT, layoutLanes, ROW_HEIGHT, rowTop } from "./view.js";
import { describeEvent } from "./words.js";

/** @import { Timeline } from "./state.js" */
/** @import { TimeRange } from "./view.js" */

const MAX_FRAME_TIMES = 2000;
const MAX_PLACES = 100;
/** A window that showed for so long is a place to go back to, ms; the windows during a gesture are not. */
const REST_MS = 500;

/** @param {Timeline} timeline */
export function measure(timeline) {
  if (timeline.isReleased) return;
  const { frame, stage, canvas } = timeline.dom;
  const width = Math.max(1, frame.clientWidth);
  const height = Math.max(HEAD_HEIGHT + ROW_HEIGHT, frame.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  stage.style.height = `${Math.max(height, Math.ceil(timeline.layout.total + HEAD_HEIGHT))}px`;
  const { size } = timeline;
  if (size.width !== width || size.height !== height || size.ratio !== ratio) {
    timeline.size = {
      width,
      height,
      ratio,
      gutter: Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)),
    };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    // A canvas that was just resized is blank until it is painted: do it before the browser shows it.
    paintNow(timeline);
  } else askFrame(timeline);
}

/**
 * Releases the pixels of the canvases of a timeline that is far from the screen, and paints it again near it.
 *
 * @param {Timeline} timeline
 * @param {boolean} isNear
 */
export function setNear(timeline, isNear) {
  if (timeline.isReleased !== isNear) return;
  timeline.isReleased = !isNear;
  if (isNear) {
    timeline.size = { ...timeline.size, width: 0 };
    measure(timeline);
    return;
  }
  const { canvas } = timeline.dom;
  for (const one of [canvas, timeline.painter.stripCanvas]) one.width = one.height = 0;
  timeline.painter.strip = null;
  timeline.overview = null;
}

/** @param {Timeline} timeline */
export function paintNow(timeline) {
  if (timeline.isReleased) return;
  const began = performance.now();
  timeline.scroll = timeline.dom.frame.scrollTop;
  paintFrame(timeline);
  timeline.script.push(performance.now() - began);
  if (timeline.script.length > MAX_FRAME_TIMES) timeline.script.splice(0, MAX_FRAME_TIMES / 2);
}

/** @param {Timeline} timeline */
export function askFrame(timeline) {
  if (timeline.pending || timeline.isGone) return;
  timeline.pending = requestAnimationFrame((now) => {
    timeline.pending = 0;
    if (timeline.isGone) return;
    timeline.beforeFrame?.(now);
    paintNow(timeline);
  });
}

/**
 * @param {Timeline} timeline
 * @param {TimeRange} view
 */
export function moveTo(timeline, view) {
  keepPlace(timeline);
  setView(timeline, view);
}

/**
 * Keeps the window that shows as a place to go back to, if it showed long enough to be one.
 *
 * @param {Timeline} timeline
 */
function keepPlace(timeline) {
  if (performance.now() - timeline.movedAt <= REST_MS) return;
  timeline.before.push(timeline.view);
  if (timeline.before.length > MAX_PLACES) timeline.before.shift();
  timeline.after = [];
}

/**
 * Goes back to the window before the last move, or forward again.
 *
 * @param {Timeline} timeline
 * @param {boolean} isForward
 */
export function goBack(timeline, isForward) {
  const [from, to] = isForward ? [timeline.after, timeline.before] : [timeline.before, timeline.after];
  const { view } = timeline;
  let place = from.pop();
  // A move at the edge of the trace changes nothing.
  while (place?.[0] === view[0] && place[1] === view[1]) place = from.pop();
  if (place === undefined) return;
  to.push(view);
  glide(timeline, place);
}

/**
 * @param {Timeline} timeline
 * @param {TimeRange} view
 */
function setView(timeline, view) {
  timeline.movedAt = performance.now();
  const next = clampWindow(view, timeline.extent);
  if (next[0] === timeline.view[0] && next[1] === timeline.view[1]) return;
  timeline.view = next;
  timeline.options.onTime?.([...next]);
  askFrame(timeline);
}

/**
 * Glides to a window; at once where the reader prefers reduced motion.
 *
 * @param {Timeline} timeline
 * @param {TimeRange} view
 */
export function glideTo(timeline, view) {
  keepPlace(timeline);
  glide(timeline, view);
}

/**
 * @param {Timeline} timeline
 * @param {TimeRange} view
 */
function glide(timeline, view) {
  const target = clampWindow(view, timeline.extent);
  timeline.held.clear();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    setView(timeline, target);
    return;
  }
  const from = timeline.view;
  /** @type {number | null} */
  let began = null;
  timeline.beforeFrame = (now) => {
    began ??= now;
    const share = Math.min(1, (now - began) / 180);
    const ease = 1 - (1 - share) ** 3;
    setView(
      timeline,
      share < 1 ? [from[0] + (target[0] - from[0]) * ease, from[1] + (target[1] - from[1]) * ease] : target,
    );
    if (share >= 1) timeline.beforeFrame = null;
    else askFrame(timeline);
  };
  askFrame(timeline);
}

/**
 * Dims what is neither among the names chosen outside nor found by the search, or not by its lane's filter.
 *
 * @param {Timeline} timeline
 */
export function choose(timeline) {
  const { data, names, search, filters } = timeline;
  if (names === null && search === null && !filters.size) timeline.chosen = null;
  else {
    const wanted = new Uint8Array(data.header.names.length);
    for (let id = 0; id < wanted.length; id++)
      wanted[id] = +((names === null || names.has(id)) && (search === null || search.isHit[id]));
    const keep = new Uint8Array(data.n);
    const filterOf = data.header.lanes.map((_, l) => filters.get(l)?.isHit ?? null);
    for (let i = 0; i < data.n; i++) keep[i] = wanted[data.name[i]] & (filterOf[data.lane[i]]?.[data.name[i]] ?? 1);
    timeline.chosen = { keep, index: gatherRows(data, timeline.rows, timeline.tone, keep) };
  }
  askFrame(timeline);
}

/** @param {Timeline} timeline */
export function relayout(timeline) {
  const { rows, collapsed, order, pinned } = timeline;
  timeline.layout = layoutLanes(rows.heights, collapsed, order, pinned.size);
  measure(timeline);
}

/** @param {Timeline} timeline */
export function announce(timeline) {
  timeline.options.onSelect?.({
    range: timeline.range && [...timeline.range],
    event: timeline.selected,
    names: timeline.names && new Set(timeline.names),
  });
}

/**
 * Brings an event into view: its lane by scrolling, its time by panning, and by zooming only where it could not be seen.
 *
 * @param {Timeline} timeline
 * @param {number} event
 * @param {boolean} [isZoomed]
 */
export function reveal(timeline, event, isZoomed = false) {
  const { data, view, dom, layout } = timeline;
  // What is under the pointer changes without the pointer.
  dom.tip.hidden = true;
  timeline.hover = null;
  const i = drawnEvent(data, timeline.rows, event);
  const [t0, t1] = [data.start[i], data.start[i] + data.dur[i]];
  const lane = data.lane[i];
  if (timeline.rows.row[i] >= layout.shown[lane] && timeline.collapsed.delete(lane)) relayout(timeline);
  const y = rowTop(timeline.layout, lane, timeline.rows.row[i]);
  const room = timeline.size.height - HEAD_HEIGHT;
  const pinned = pinnedHeight(timeline);
  const isPinned = y < pinned;
  if (!isPinned && y < timeline.scroll + pinned) dom.frame.scrollTop = y - pinned - 8;
  else if (!isPinned && y + ROW_HEIGHT > timeline.scroll + room) dom.frame.scrollTop = y + ROW_HEIGHT + 8 - room;
  const span = view[1] - view[0];
  const perPx = span / (timeline.size.width - timeline.size.gutter);
  if (isZoomed) glideTo(timeline, aroundEvent(t0, t1, 4));
  else if (t1 - t0 < 3 * perPx) glideTo(timeline, aroundEvent(t0, t1, 30));
  else if (t1 < view[0] + span * 0.02 || t0 > view[1] - span * 0.02) {
    glideTo(timeline, [(t0 + t1 - span) / 2, (t0 + t1 + span) / 2]);
  }
  askFrame(timeline);
}

/**
 * A window `times` as long as the event, with the event in its middle.
 *
 * @param {number} t0
 * @param {number} t1
 * @param {number} times
 * @returns {TimeRange}
 */
function aroundEvent(t0, t1, times) {
  const half = t1 > t0 ? ((t1 - t0) * times) / 2 : 500;
  return [(t0 + t1) / 2 - half, (t0 + t1) / 2 + half];
}

/**
 * @param {Timeline} timeline
 * @param {number} i
 */
export function focusEvent(timeline, i) {
  if (i < 0) return;
  timeline.focused = i;
  timeline.focusLane = timeline.data.lane[i];
  timeline.dom.spoken.textContent = describeEvent(timeline.data, i);
  reveal(timeline, i);
}
