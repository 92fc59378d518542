// The stream timeline: lanes of device streams and threads on one canvas, for mouse and keyboard.

import { contextOf, element } from "../shared/dom.js";
import { createActions, runSearch } from "./actions.js";
import { fillLegend } from "./dom.js";
import { legendEntries } from "./draw.js";
import { frameOf } from "./frame.js";
import { listenToKeys, listenToPointer } from "./input.js";
import { listenToLanesButton } from "./lanes_panel.js";
import { askFrame, choose, measure, moveTo, paintNow, reveal, setNear } from "./moves.js";
import { acrossLaunch, neighbour } from "./nav.js";
import { createState, listen, paletteOf } from "./state.js";
import { setColors } from "./style.js";
import { HEAD_HEIGHT, ROW_HEIGHT } from "./view.js";

/** @import { Mark } from "../app/marks.js" */
/** @import { TraceData } from "../payload/payload.js" */
/** @import { ThemeName } from "../shared/theme.js" */
/** @import { Actions } from "./actions.js" */
/** @import { Direction } from "./nav.js" */
/** @import { Timeline, TimelineOptions } from "./state.js" */
/** @import { TimeRange } from "./view.js" */

const MAX_HEIGHT = 460;
const MIN_HEIGHT = 150;
// A timeline farther from the screen than this keeps no pixels.
const NEAR = "800px 0px";

/**
 * @typedef {object} TimelineView
 * @property {(name: ThemeName) => void} setTheme
 * @property {() => void} fit
 * @property {(t0: number, t1: number) => void} zoomTo
 * @property {() => TimeRange} getView
 * @property {(event?: number | null) => void} select
 * @property {(t0: number | null, t1?: number | null) => void} setRange
 * @property {(names: Iterable<number> | null) => void} setNames
 * @property {(event: number, direction: Direction) => number} beside The next event in a direction; the event itself
 *   where there is none.
 * @property {(event: number) => number} partnerOf The other end of the launch arrow of an event; itself for none.
 * @property {(event: number | null) => number | null} raceOf The race that an event is marked with, as a row of
 *   trace.races.
 * @property {(race: number) => void} showRace
 * @property {(group: number) => void} showSync Shows the longest wait of a row of the table.
 * @property {(marks: Mark[]) => void} setMarks
 * @property {(text: string) => number} search The number of events found.
 * @property {() => void} focus
 * @property {() => void} resize
 * @property {(event: number) => Box | null} boxOf Place of an event on the canvas, px, for tests and overlays.
 * @property {() => { frames: number, script: number[] }} stats
 * @property {() => void} destroy
 */

/** @typedef {{ x: number, y: number, width: number, height: number }} Box */

/**
 * Builds the timeline inside `root`. Times are ns from header.t0.
 *
 * @param {HTMLElement} root Empty element; it keeps the timeline until destroy().
 * @param {TraceData} data
 * @param {TimelineOptions} [options]
 * @returns {TimelineView}
 */
export function createTimeline(root, data, options = {}) {
  const timeline = createState(root, data, options);
  const act = createActions(timeline);
  listenToPointer(timeline, act);
  listenToKeys(timeline, act);
  listenToTools(timeline, act);
  applyTheme(timeline, timeline.mode);
  setFrameHeight(timeline);
  measure(timeline);
  const watch = new ResizeObserver(() => measure(timeline));
  watch.observe(timeline.dom.frame);
  const near = new IntersectionObserver((entries) => setNear(timeline, entries[entries.length - 1].isIntersecting), {
    rootMargin: NEAR,
  });
  near.observe(timeline.dom.frame);
  timeline.cleanups.push(
    () => watch.disconnect(),
    () => near.disconnect(),
  );
  paintNow(timeline);
  return publicApi(timeline, act);
}

/**
 * @param {Timeline} timeline
 * @param {ThemeName} mode
 */
function applyTheme(timeline, mode) {
  Object.assign(timeline, paletteOf(mode));
  setColors(timeline.dom.host, timeline.colors);
  fillLegend(timeline.dom, legendEntries(timeline));
  askFrame(timeline);
}

/** @param {Timeline} timeline */
function setFrameHeight({ dom, layout, options }) {
  const wanted = options.height ?? Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, layout.total + HEAD_HEIGHT));
  dom.frame.style.height = `${Math.round(wanted) + 2}px`;
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 */
function listenToTools(timeline, act) {
  const { dom } = timeline;
  listen(timeline, dom.zoomIn, "click", () => act.zoom(0.5, null));
  listen(timeline, dom.zoomOut, "click", () => act.zoom(2, null));
  listen(timeline, dom.fit, "click", act.fit);
  listen(timeline, dom.keysButton, "click", act.showKeys);
  listen(timeline, dom.picture, "click", () => savePicture(timeline));
  listenToLanesButton(timeline);
  listen(timeline, dom.next, "click", () => act.nextMatch(1));
  listen(timeline, dom.previous, "click", () => act.nextMatch(-1));
  listen(timeline, dom.frame, "scroll", () => askFrame(timeline), { passive: true });
}

/**
 * Saves the lanes as they show, on the background of the page.
 *
 * @param {Timeline} timeline
 */
function savePicture({ dom, colors }) {
  const { canvas } = dom;
  const copy = element("canvas", { width: canvas.width, height: canvas.height });
  const context = contextOf(copy);
  context.fillStyle = colors.bg;
  context.fillRect(0, 0, copy.width, copy.height);
  context.drawImage(canvas, 0, 0);
  element("a", { href: copy.toDataURL("image/png"), download: "timeline.png" }).click();
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 * @returns {TimelineView}
 */
function publicApi(timeline, act) {
  return {
    setTheme: (name) => applyTheme(timeline, name),
    fit: act.fit,
    zoomTo: (t0, t1) => act.show([t0, t1]),
    getView: () => [...timeline.view],
    select(event = null) {
      timeline.selected = timeline.focused = event;
      if (event !== null) reveal(timeline, event);
      askFrame(timeline);
    },
    setRange(t0, t1 = null) {
      timeline.range = t0 === null || t1 === null ? null : [t0, t1];
      askFrame(timeline);
    },
    setNames(names) {
      timeline.names = names === null ? null : new Set(names);
      choose(timeline);
    },
    beside: (event, direction) => neighbour(timeline, event, direction),
    partnerOf: (event) => acrossLaunch(timeline, event),
    raceOf: (event) => timeline.races.find((mark) => mark.event === event && event !== null)?.race ?? null,
    showRace: (race) =>
      showMark(
        timeline,
        timeline.races.find((mark) => mark.race === race),
      ),
    showSync: (group) =>
      showMark(
        timeline,
        timeline.syncs.find((mark) => mark.group === group),
      ),
    setMarks(marks) {
      timeline.marks = marks;
      askFrame(timeline);
    },
    search(text) {
      timeline.dom.search.value = text;
      return runSearch(timeline, text);
    },
    focus: () => timeline.dom.canvas.focus({ preventScroll: true }),
    resize: () => measure(timeline),
    boxOf: (event) => boxOf(timeline, event),
    stats: () => ({ frames: timeline.script.length, script: [...timeline.script] }),
    destroy: () => destroy(timeline),
  };
}

/** @param {Timeline} timeline */
function destroy(timeline) {
  timeline.isGone = true;
  cancelAnimationFrame(timeline.pending);
  for (const cleanup of timeline.cleanups.splice(0)) cleanup();
  timeline.dom.host.remove();
}

/**
 * Brings a mark into view; its event, where it has one, gets the focus.
 *
 * @param {Timeline} timeline
 * @param {{ event: number, at: number } | undefined} mark
 */
function showMark(timeline, mark) {
  if (!mark) return;
  if (mark.event >= 0) {
    timeline.focused = mark.event;
    reveal(timeline, mark.event);
  } else if (mark.at < timeline.view[0] || mark.at > timeline.view[1]) {
    const half = (timeline.view[1] - timeline.view[0]) / 2;
    moveTo(timeline, [mark.at - half, mark.at + half]);
  }
  askFrame(timeline);
}

/**
 * @param {Timeline} timeline
 * @param {number} event
 * @returns {Box | null}
 */
function boxOf(timeline, event) {
  const frame = frameOf(timeline);
  const lane = timeline.data.lane[event];
  if (timeline.rows.row[event] >= timeline.layout.shown[lane]) return null;
  const x = frame.x(timeline.data.start[event]);
  const width = timeline.data.dur[event] * frame.scale;
  return { x, y: frame.y(lane, timeline.rows.row[event]), width, height: ROW_HEIGHT - 1 };
}
