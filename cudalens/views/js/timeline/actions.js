// What the gestures do. Each of them can be done with the keyboard or a button.

import { between } from "../app/measure.js";
import { formatCount } from "../shared/format.js";
import { showTip, toggleKeys } from "./dom.js";
import { frameOf, layoutY } from "./frame.js";
import { heldMotion } from "./input.js";
import { foldLane, moveLane, pinLane } from "./lanes.js";
import { eventAt } from "./lod.js";
import { announce, askFrame, choose, focusEvent, glideTo, goBack, reveal } from "./moves.js";
import { acrossLaunch, firstEvent, neighbour, searchNames, stepMatch } from "./nav.js";
import { HEAD_HEIGHT, laneAtY, ROW_HEIGHT, rowAtY } from "./view.js";
import { centreAt, glideToEnd, panBy, showWindow, zoomBy } from "./window.js";
import { describeEvent, tipLines } from "./words.js";

/** @import { Direction } from "./nav.js" */
/** @import { Timeline } from "./state.js" */
/** @import { TimeRange } from "./view.js" */
/** @typedef {ReturnType<typeof createActions>} Actions */

const HIT_SLACK_PX = 3;

/** @param {Timeline} timeline */
export function createActions(timeline) {
  return { ...windowActions(timeline), ...pointerActions(timeline), ...keyActions(timeline) };
}

/** @param {Timeline} timeline */
function windowActions(timeline) {
  return {
    show: (/** @type {TimeRange} */ view) => showWindow(timeline, view),
    pan: (/** @type {number} */ px) => panBy(timeline, px),
    zoom: (/** @type {number} */ factor, /** @type {number | null} */ x) => zoomBy(timeline, factor, x),
    centre: (/** @type {number} */ t) => centreAt(timeline, t),
    back: (/** @type {boolean} */ isForward) => goBack(timeline, isForward),
    fit: () => glideTo(timeline, timeline.whole),
    toEnd: (/** @type {boolean} */ isEnd) => glideToEnd(timeline, isEnd),
  };
}

/** @param {Timeline} timeline */
function pointerActions(timeline) {
  return {
    timeAt: (/** @type {number} */ x) => timeAt(timeline, x),
    hover: (/** @type {number} */ x, /** @type {number} */ y) => hover(timeline, x, y),
    leave() {
      timeline.pointerX = null;
      setHover(timeline, null);
    },
    click: (/** @type {number} */ x, /** @type {number} */ y) => click(timeline, x, y),
    zoomToEventAt(/** @type {number} */ x, /** @type {number} */ y) {
      const found = eventUnder(timeline, x, y);
      if (found !== null) reveal(timeline, found, true);
    },
    dragRange(/** @type {number} */ from, /** @type {number} */ to) {
      timeline.range = [Math.min(from, to), Math.max(from, to)];
      askFrame(timeline);
    },
    finishRange: () => announce(timeline),
    measureTo(/** @type {number} */ x, /** @type {number} */ y) {
      const [from, to] = [timeline.selected, eventUnder(timeline, x, y)];
      if (from === null || to === null || from === to) return false;
      timeline.range = between(timeline.data, from, to);
      timeline.selected = null;
      announce(timeline);
      askFrame(timeline);
      return true;
    },
    clearRange() {
      if (timeline.range === null) return;
      timeline.range = null;
      announce(timeline);
      askFrame(timeline);
    },
    toggleLane: (/** @type {number} */ y) => foldLane(timeline, laneAtY(timeline.layout, layoutY(timeline, y))),
    dropLane(/** @type {number} */ from, /** @type {number} */ to) {
      const [lane, other] = [from, to].map((y) => laneAtY(timeline.layout, layoutY(timeline, y)));
      moveLane(
        timeline,
        lane,
        other < 0 ? (to < HEAD_HEIGHT ? 0 : timeline.order.length - 1) : timeline.order.indexOf(other),
      );
    },
  };
}

/** @param {Timeline} timeline */
function keyActions(timeline) {
  return {
    zoomToFocused() {
      const event = timeline.focused ?? timeline.selected;
      if (event !== null) reveal(timeline, event, true);
      else if (timeline.range !== null) glideTo(timeline, aroundRange(timeline.range));
      else glideTo(timeline, timeline.whole);
    },
    showKeys: () => toggleKeys(timeline.dom),
    toggleFocusLane: () => foldLane(timeline, laneInFocus(timeline)),
    pinFocusLane: () => pinLane(timeline, laneInFocus(timeline)),
    arrow(/** @type {Direction} */ direction) {
      if (timeline.focused !== null) goTo(timeline, neighbour(timeline, timeline.focused, direction));
      else if (direction === "left" || direction === "right") panBy(timeline, (direction === "left" ? -1 : 1) * 80);
      else timeline.dom.frame.scrollBy(0, (direction === "up" ? -2 : 2) * ROW_HEIGHT);
    },
    enter() {
      const { focused } = timeline;
      if (focused === null) focusEvent(timeline, firstEvent(timeline, lanesInView(timeline)));
      else if (focused === timeline.selected) goTo(timeline, acrossLaunch(timeline, focused));
      else select(timeline, focused);
    },
    follow() {
      if (timeline.focused !== null) goTo(timeline, acrossLaunch(timeline, timeline.focused));
    },
    escape: () => escapeStep(timeline),
    search: (/** @type {string} */ text) => runSearch(timeline, text),
    nextMatch: (/** @type {1 | -1} */ by) => nextMatch(timeline, by),
    hold: (/** @type {string} */ key) => holdKey(timeline, key),
    focusChanged(/** @type {boolean} */ hasFocus) {
      timeline.hasFocus = hasFocus;
      askFrame(timeline);
    },
  };
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 */
function timeAt(timeline, x) {
  const frame = frameOf(timeline);
  return frame.t0 + (x - timeline.size.gutter) / frame.scale;
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 * @param {number} y
 * @returns {number | null}
 */
function eventUnder(timeline, x, y) {
  const { index, layout, size } = timeline;
  const place = rowAtY(layout, layoutY(timeline, y));
  if (place === null || x < size.gutter || y < HEAD_HEIGHT) return null;
  const slack = HIT_SLACK_PX / frameOf(timeline).scale;
  const found = eventAt(index, index.laneRow[place.lane] + place.row, timeAt(timeline, x), slack);
  return found < 0 ? null : found;
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 * @param {number} y
 */
function hover(timeline, x, y) {
  const { dom } = timeline;
  timeline.pointerX = x;
  const found = eventUnder(timeline, x, y);
  if (found !== null) showTip(dom, tipLines(timeline, found), x + dom.frame.offsetLeft, y + dom.frame.offsetTop);
  setHover(timeline, found);
}

/**
 * @param {Timeline} timeline
 * @param {number | null} event
 */
function setHover(timeline, event) {
  if (event === null) timeline.dom.tip.hidden = true;
  if (event === timeline.hover) return;
  timeline.hover = event;
  timeline.options.onHover?.(event);
  askFrame(timeline);
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 * @param {number} y
 */
function click(timeline, x, y) {
  const found = eventUnder(timeline, x, y);
  timeline.focused = found;
  if (found === null) timeline.range = null;
  select(timeline, found);
}

/**
 * @param {Timeline} timeline
 * @param {number | null} event
 */
function select(timeline, event) {
  timeline.selected = event;
  if (event !== null) timeline.dom.spoken.textContent = `selected ${describeEvent(timeline.data, event)}`;
  announce(timeline);
  askFrame(timeline);
}

/**
 * Moves the focus to another event. Where the details of the focused event show, they follow.
 *
 * @param {Timeline} timeline
 * @param {number} event
 */
function goTo(timeline, event) {
  const isShown = timeline.selected !== null && timeline.focused === timeline.selected;
  focusEvent(timeline, event);
  if (isShown && timeline.focused !== null) select(timeline, timeline.focused);
}

/**
 * The window around a range of time.
 *
 * @param {TimeRange} range
 * @returns {TimeRange}
 */
function aroundRange([from, to]) {
  const room = Math.max((to - from) * 0.1, 50);
  return [from - room, to + room];
}

/**
 * The lanes in view and all below them, from top to bottom.
 *
 * @param {Timeline} timeline
 */
function lanesInView(timeline) {
  const shown = frameOf(timeline)
    .parts.reverse()
    .flatMap(({ lanes }) => lanes);
  return [...shown, ...timeline.order.slice(timeline.order.indexOf(shown[shown.length - 1]) + 1)];
}

/** @param {Timeline} timeline */
function laneInFocus(timeline) {
  return timeline.focusLane >= 0 ? timeline.focusLane : (lanesInView(timeline)[0] ?? -1);
}

/**
 * Clears one thing: the search, then the event in focus, then the selection. False where there was nothing.
 *
 * @param {Timeline} timeline
 */
function escapeStep(timeline) {
  if (!timeline.dom.keys.hidden) toggleKeys(timeline.dom);
  else if (timeline.search !== null) {
    timeline.dom.search.value = "";
    runSearch(timeline, "");
  } else if (timeline.focused !== null && timeline.focused !== timeline.selected) timeline.focused = null;
  else if (timeline.selected !== null || timeline.range !== null) {
    Object.assign(timeline, { selected: null, range: null, focused: null });
    announce(timeline);
  } else return false;
  timeline.isArmed = false;
  askFrame(timeline);
  return true;
}

/**
 * @param {Timeline} timeline
 * @param {string} text
 * @returns {number} The number of events found.
 */
export function runSearch(timeline, text) {
  const search = searchNames(timeline, text);
  timeline.search = search;
  timeline.dom.matches.textContent =
    search && `${formatCount(search.count)} ${search.count === 1 ? "match" : "matches"}`;
  choose(timeline);
  return search?.count ?? 0;
}

/**
 * @param {Timeline} timeline
 * @param {1 | -1} by
 */
function nextMatch(timeline, by) {
  const { search } = timeline;
  if (search === null || search.count === 0) return;
  const { found, ordinal } = stepMatch(timeline, search, by);
  search.at = found;
  timeline.dom.matches.textContent = `${formatCount(ordinal)} of ${formatCount(search.count)}`;
  timeline.selected = found;
  focusEvent(timeline, found);
  announce(timeline);
}

/**
 * W A S D move while they are held, at a speed that does not depend on the frame rate; one step where the reader
 * prefers reduced motion.
 *
 * @param {Timeline} timeline
 * @param {string} key
 */
function holdKey(timeline, key) {
  const step = (/** @type {[number, number]} */ [zoom, pan], /** @type {number} */ seconds) => {
    if (zoom) zoomBy(timeline, Math.exp(-zoom * 2.2 * seconds), timeline.pointerX);
    if (pan) panBy(timeline, pan * 900 * seconds);
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    step(heldMotion([key]), 0.12);
    return;
  }
  if (timeline.held.has(key)) return;
  timeline.held.add(key);
  /** @type {number | null} */
  let before = null;
  const move = (/** @type {number} */ now) => {
    const seconds = before === null ? 1 / 60 : Math.min(0.05, (now - before) / 1000);
    before = now;
    step(heldMotion(timeline.held), seconds);
    timeline.beforeFrame = timeline.held.size ? move : null;
    if (timeline.held.size) askFrame(timeline);
  };
  timeline.beforeFrame = move;
  askFrame(timeline);
}
