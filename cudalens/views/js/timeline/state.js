// The state of a timeline, which its modules share.

import { THEME, tonesOf } from "../shared/theme.js";
import { launchIndex } from "./arrows.js";
import { buildDom } from "./dom.js";
import { assignRows, assignTones, gatherRows } from "./lod.js";
import { createPainter } from "./painter.js";
import { raceMarks } from "./races.js";
import { syncMarks } from "./syncs.js";
import { fitWindow, layoutLanes, timelineExtent } from "./view.js";

/** @import { Mark } from "../app/marks.js" */
/** @import { TraceData } from "../payload/payload.js" */
/** @import { ThemeColors, ThemeName, Tones } from "../shared/theme.js" */
/** @import { LaunchIndex } from "./arrows.js" */
/** @import { LanesPanel } from "./lanes_panel.js" */
/** @import { TimelineDom } from "./dom.js" */
/** @import { Painter } from "./painter.js" */
/** @import { RowIndex, Rows } from "./lod.js" */
/** @import { Search } from "./nav.js" */
/** @import { PlacedRace } from "./races.js" */
/** @import { PlacedSync } from "./syncs.js" */
/** @import { LaneLayout, TimeRange } from "./view.js" */

/**
 * @typedef {object} TimelineOptions
 * @property {ThemeName} [theme]
 * @property {number} [height] px; by default as tall as the lanes, 460 at most.
 * @property {(selection: TimelineSelection) => void} [onSelect] After the user selects.
 * @property {(event: number | null) => void} [onHover]
 * @property {(view: TimeRange) => void} [onTime] After the window moved.
 */

/**
 * @typedef {object} TimelineSelection
 * @property {TimeRange | null} range ns from header.t0.
 * @property {number | null} event Index.
 * @property {Set<number> | null} names Indices into header.names.
 */

/** @typedef {{ text: string, isHit: Uint8Array }} LaneFilter Names that contain the text. */
/** @typedef {"plot" | "range" | "ruler" | "overview" | "gutter" | "corner"} Zone */
/**
 * @typedef {{ kind: Zone, x: number, y: number, view: TimeRange, scroll: number, moved: boolean, from: number }} Drag
 */
/** @typedef {{ width: number, height: number, gutter: number, ratio: number }} Size In px; device pixels per px. */

/**
 * @typedef {object} Timeline
 * @property {TraceData} data
 * @property {TimelineOptions} options
 * @property {TimelineDom} dom
 * @property {Painter} painter
 * @property {Rows} rows
 * @property {Uint8Array} tone Of every event.
 * @property {number} hostTone Tone of the first host event, for the overview.
 * @property {TimeRange} whole The window that shows the whole trace.
 * @property {TimeRange} extent First start and last end.
 * @property {TimeRange} view The window that shows.
 * @property {TimeRange[]} before Windows to go back to, the last one at the end.
 * @property {TimeRange[]} after Windows to go forward to, the next one at the end.
 * @property {number} movedAt When the window moved last, ms of `performance.now()`.
 * @property {RowIndex} index
 * @property {LaunchIndex} launches
 * @property {Set<number>} collapsed Lanes.
 * @property {number[]} order Lanes from top to bottom, the pinned ones first.
 * @property {Set<number>} pinned Lanes that stay on top.
 * @property {Map<number, LaneFilter>} filters Of lanes.
 * @property {LanesPanel | null} lanesPanel The list of lanes, once it was open.
 * @property {LaneLayout} layout
 * @property {{ t0: number, t1: number }[]} steps Profiler steps in time order.
 * @property {PlacedRace[]} races
 * @property {PlacedSync[]} syncs
 * @property {Mark[]} marks That a reader made.
 * @property {{ keep: Uint8Array, index: RowIndex } | null} chosen Events that are not dimmed.
 * @property {Set<number> | null} names That are selected elsewhere.
 * @property {Search | null} search
 * @property {TimeRange | null} range
 * @property {number | null} selected
 * @property {number | null} focused
 * @property {number | null} hover
 * @property {boolean} hasFocus
 * @property {number} focusLane
 * @property {boolean} isArmed Whether the plain wheel zooms.
 * @property {Drag | null} drag
 * @property {Set<string>} held Keys that move the window.
 * @property {number | null} pointerX
 * @property {number} scroll
 * @property {Size} size
 * @property {ThemeName} mode
 * @property {ThemeColors} colors
 * @property {Tones} tones
 * @property {Uint32Array} dimPixels The dimmed colour for every tone.
 * @property {{ key: string, picture: HTMLCanvasElement } | null} overview
 * @property {string[] | null} lowerNames
 * @property {number[]} script Durations of the last frames' scripts, ms.
 * @property {number} pending Animation frame that is requested; 0 for none.
 * @property {((now: number) => void) | null} beforeFrame
 * @property {boolean} isGone
 * @property {boolean} isReleased Whether its canvases hold no pixels, far from the screen.
 * @property {(() => void)[]} cleanups
 */

const MAX_STEPS = 4000;

/**
 * @param {HTMLElement} root
 * @param {TraceData} data
 * @param {TimelineOptions} options
 * @returns {Timeline}
 */
export function createState(root, data, options) {
  const rows = assignRows(data);
  const tone = assignTones(data);
  const whole = fitWindow(timelineExtent(data, true));
  const index = gatherRows(data, rows, tone);
  const dom = buildDom(root);
  const collapsed = new Set(data.header.lanes.flatMap((lane, k) => (lane.is_idle ? [k] : [])));
  const order = data.header.lanes.map((_, l) => l);
  return {
    data,
    options,
    dom,
    painter: createPainter(dom.canvas, data),
    rows,
    tone,
    hostTone: hostTone(data, index),
    whole,
    extent: timelineExtent(data),
    view: [...whole],
    before: [],
    after: [],
    movedAt: -Infinity,
    index,
    launches: launchIndex(data),
    collapsed,
    order,
    pinned: new Set(),
    filters: new Map(),
    lanesPanel: null,
    layout: layoutLanes(rows.heights, collapsed, order),
    steps: stepRanges(data),
    races: raceMarks(data),
    syncs: syncMarks(data),
    marks: [],
    chosen: null,
    names: null,
    search: null,
    range: null,
    selected: null,
    focused: null,
    hover: null,
    hasFocus: false,
    focusLane: -1,
    isArmed: false,
    drag: null,
    held: new Set(),
    pointerX: null,
    scroll: 0,
    size: { width: 0, height: 0, gutter: 150, ratio: 1 },
    ...paletteOf(options.theme ?? "light"),
    overview: null,
    lowerNames: null,
    script: [],
    pending: 0,
    beforeFrame: null,
    isGone: false,
    isReleased: false,
    cleanups: [],
  };
}

/**
 * The colours of a theme, as the state holds them.
 *
 * @param {ThemeName} mode
 */
export function paletteOf(mode) {
  const colors = THEME[mode];
  const tones = tonesOf(mode);
  const dim = Number.parseInt(colors.dim.slice(1), 16);
  const packed = (((dim & 255) << 16) | (dim & 0xff00) | (dim >> 16)) >>> 0;
  return { mode, colors, tones, dimPixels: new Uint32Array(tones.pixels.length).fill(packed) };
}

/**
 * Adds a listener that is removed with the timeline.
 *
 * @template {keyof HTMLElementEventMap} Type
 * @param {Timeline} timeline
 * @param {HTMLElement} node
 * @param {Type} type
 * @param {(event: HTMLElementEventMap[Type]) => void} handler
 * @param {AddEventListenerOptions} [options]
 */
export function listen(timeline, node, type, handler, options) {
  node.addEventListener(type, handler, options);
  timeline.cleanups.push(() => node.removeEventListener(type, handler, options));
}

/**
 * @param {TraceData} data
 * @param {RowIndex} index
 */
function hostTone({ header }, { first, laneRow, tone }) {
  const lane = header.lanes.findIndex(({ kind, count }) => kind === "host" && count > 0);
  return lane < 0 ? 0 : tone[first[laneRow[lane]]];
}

/**
 * Host ranges of profiler steps, in time order.
 *
 * @param {TraceData} data
 */
function stepRanges(data) {
  const isStep = new Set(data.header.step_names);
  /** @type {{ t0: number, t1: number }[]} */
  const steps = [];
  if (!isStep.size) return steps;
  for (let i = 0; i < data.n; i++) {
    if (isStep.has(data.name[i]) && data.header.lanes[data.lane[i]].kind === "host") {
      steps.push({ t0: data.start[i], t1: data.start[i] + data.dur[i] });
    }
  }
  // More bands than this cannot be distinguished.
  return steps.length > MAX_STEPS ? [] : steps.sort((a, b) => a.t0 - b.t0);
}
