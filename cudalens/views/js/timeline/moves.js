// How the timeline changes: its size, its window, what is chosen, and the frame that shows it.

import { gatherRows } from "./lod.js";
import { paintFrame } from "./draw.js";
import { TL_HEAD, TL_ROW, clampWindow, layoutLanes, rowTop, spokenEvent } from "./view.js";

const TL_FRAMES_KEPT = 2000;

export function measure(tl) {
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

export function paintNow(tl) {
  const began = performance.now();
  tl.scroll = tl.dom.frame.scrollTop;
  paintFrame(tl);
  tl.script.push(performance.now() - began);
  if (tl.script.length > TL_FRAMES_KEPT) tl.script.splice(0, TL_FRAMES_KEPT / 2);
}

export function askFrame(tl) {
  if (tl.pending || tl.isGone) return;
  tl.pending = requestAnimationFrame((now) => {
    tl.pending = 0;
    if (tl.isGone) return;
    tl.beforeFrame?.(now);
    paintNow(tl);
  });
}

export function moveTo(tl, view) {
  const next = clampWindow(view, tl.extent);
  if (next[0] === tl.view[0] && next[1] === tl.view[1]) return;
  tl.view = next;
  tl.options.onTime?.([...next]);
  askFrame(tl);
}

// Glides to a window, unless the reader asked for less motion.
export function glideTo(tl, view) {
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
export function choose(tl) {
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

export function relayout(tl) {
  tl.layout = layoutLanes(tl.rows.heights, tl.collapsed);
  measure(tl);
}

export function announce(tl) {
  tl.options.onSelect?.({ range: tl.range && [...tl.range], event: tl.selected, names: tl.names && new Set(tl.names) });
}

// Brings event i into view: its lane by scrolling, its time by panning, and by zooming only where it could not be seen.
export function reveal(tl, i, isZoomed = false) {
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

export function focusEvent(tl, i) {
  if (i === null || i < 0) return;
  tl.focused = i;
  tl.focusLane = tl.data.lane[i];
  tl.dom.spoken.textContent = spokenEvent(tl.data, i);
  reveal(tl, i);
}
