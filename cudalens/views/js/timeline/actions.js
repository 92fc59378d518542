// What the gestures do; every one of them is reachable from the keyboard or a button.

import { eventAt } from "./lod.js";
import { showTip } from "./dom.js";
import { frameOf } from "./frame.js";
import { heldMotion } from "./input.js";
import { announce, askFrame, choose, focusEvent, glideTo, moveTo, relayout, reveal } from "./moves.js";
import { acrossLaunch, firstEvent, neighbour, searchNames, stepMatch } from "./nav.js";
import { TL_HEAD, TL_ROW, exactTime, laneAtY, rowAtY, spokenEvent } from "./view.js";
import { uiCount, uiDuration } from "../shared/dom.js";

const TL_SLACK_PX = 3;

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
  const race = tl.races.find(({ event }) => event === i);
  if (race) lines.push(`race: ${race.title}`);
  return lines;
}

export function createActions(tl) {
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

export function runSearch(tl, text) {
  tl.search = searchNames(tl, text);
  tl.dom.matches.textContent = tl.search === null ? "" : `${uiCount(tl.search.count)} ${tl.search.count === 1 ? "match" : "matches"}`;
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
