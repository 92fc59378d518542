// The pool map: a scrolling canvas of the strips of memory at one moment. Ctrl and the wheel, + and − zoom; a click or
// the arrow keys choose a block.

import { contextOf, element } from "../shared/dom.js";
import { coloringOf } from "./colors.js";
import { drawPool } from "./draw.js";
import { boxesOfHit, fitScale, groupStrips, hitAtPoint, LINE_HEIGHT, layoutStrips } from "./layout.js";
import { onPoolKey } from "./pool_keys.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { ColorMode, Coloring, Legend } from "./colors.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { Box, Hit, Layout, StripGroup } from "./layout.js" */
/** @import { Moment } from "./moment.js" */

/**
 * @typedef {object} PoolOptions
 * @property {ThemeName} theme
 * @property {ColorMode} color
 * @property {(hit: Hit) => string[]} describe
 * @property {(hit: Hit | null) => void} onChoose
 */

/** @typedef {{ moment: Moment, groups: StripGroup[], layout: Layout }} PoolPicture */

/**
 * Colours of the allocations of a moment: their classes, and whether each is dimmed.
 *
 * @typedef {{ coloring: Coloring, codes: Uint16Array, isDim: Uint8Array | null }} PoolColors
 */

/** @typedef {{ x: number, y: number }} Point px */

/**
 * @typedef {object} Pool
 * @property {MemoryData} data
 * @property {PoolOptions} options
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLCanvasElement} over Canvas of the marks.
 * @property {HTMLElement} stage
 * @property {HTMLElement} spacer
 * @property {HTMLElement} scroller
 * @property {HTMLElement} tip
 * @property {HTMLElement} spoken What screen readers read.
 * @property {ThemeName} theme
 * @property {ColorMode} color
 * @property {((allocation: number) => boolean) | null} isDimmed
 * @property {number} zoom
 * @property {Hit | null} hover
 * @property {Hit | null} chosen
 * @property {PoolPicture | null} picture
 * @property {PoolColors | null} colors
 * @property {number} width px
 * @property {number} height px
 * @property {number} ratio Device pixels per px.
 * @property {number} numLines The most lines that were needed.
 * @property {number} pending Animation frame that is requested; 0 for none.
 * @property {number[]} script Durations of the last paints, ms.
 */

/**
 * @typedef {object} PoolView
 * @property {(moment: Moment) => Legend} show
 * @property {(color: ColorMode) => Legend} setColor
 * @property {(isDimmed: ((allocation: number) => boolean) | null) => void} setDim
 * @property {(hit: Hit | null) => void} choose
 * @property {(factor: number) => void} zoomBy
 * @property {() => void} fit
 * @property {(theme: ThemeName) => Legend} setTheme
 * @property {() => void} resize
 * @property {() => { script: number[], zoom: number, lines: number }} stats
 * @property {(x: number, y: number) => Hit | null} hitAt
 * @property {(hit: Hit) => Box[]} boxesOf
 * @property {() => void} destroy
 */

const MAX_HEIGHT = 420;
const MIN_HEIGHT = 60;
const MAX_LINES = 60000;

/**
 * Builds the map in `host`.
 *
 * @param {HTMLElement} host
 * @param {MemoryData} data
 * @param {PoolOptions} options
 * @returns {PoolView}
 */
export function createPoolMap(host, data, options) {
  const pool = createState(data, options);
  host.replaceChildren(pool.scroller, pool.tip, pool.spoken);
  listenToPool(pool);
  return {
    show: (moment) => showMoment(pool, moment),
    setColor(color) {
      pool.color = color;
      return recolor(pool);
    },
    setDim(isDimmed) {
      pool.isDimmed = isDimmed;
      recolor(pool);
    },
    choose: (hit) => choose(pool, hit, true),
    zoomBy: (factor) => zoom(pool, factor, null),
    fit: () => zoom(pool, 1 / pool.zoom, null),
    setTheme(theme) {
      pool.theme = theme;
      return recolor(pool);
    },
    resize() {
      if (pool.picture && pool.scroller.clientWidth !== pool.width) relayout(pool, pool.picture.moment);
    },
    stats: () => ({ script: pool.script, zoom: pool.zoom, lines: pool.picture?.layout.lines.length ?? 0 }),
    hitAt: (x, y) => hitUnder(pool, { x, y }),
    boxesOf: (hit) => (pool.picture ? boxesOfHit(pool.picture.moment, pool.picture.layout, hit) : []),
    destroy() {
      cancelAnimationFrame(pool.pending);
      host.replaceChildren();
    },
  };
}

/**
 * @param {MemoryData} data
 * @param {PoolOptions} options
 * @returns {Pool}
 */
function createState(data, options) {
  const canvas = element("canvas", {
    class: "mm-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all.",
  });
  const over = element("canvas", { class: "mm-over", "aria-hidden": "true" });
  const spacer = element("div", { class: "mm-spacer" });
  const stage = element("div", { class: "mm-stage" }, canvas, over);
  return {
    data,
    options,
    canvas,
    over,
    stage,
    spacer,
    scroller: element("div", { class: "mm-scroll" }, stage, spacer),
    tip: element("div", { class: "mm-tip", hidden: true }),
    spoken: element("p", { class: "mm-said", "aria-live": "polite" }),
    theme: options.theme,
    color: options.color,
    isDimmed: null,
    zoom: 1,
    hover: null,
    chosen: null,
    picture: null,
    colors: null,
    width: 0,
    height: 0,
    ratio: 1,
    numLines: 3,
    pending: 0,
    script: [],
  };
}

/**
 * @param {Pool} pool
 * @param {Moment} moment
 */
function showMoment(pool, moment) {
  const { picture } = pool;
  pool.hover = null;
  pool.tip.hidden = true;
  if (picture && hasSameStrips(picture.moment, moment)) {
    const groups = groupStrips(pool.data, moment);
    groups.forEach((group, k) => {
      picture.layout.heads[k].group = group;
    });
    pool.picture = { ...picture, moment, groups };
  } else relayout(pool, moment);
  return recolor(pool);
}

/**
 * Whether two moments have the same strips, so that nothing moves from one to the other.
 *
 * @param {Moment} before
 * @param {Moment} after
 */
function hasSameStrips(before, after) {
  if (before.device !== after.device || before.strips.length !== after.strips.length) return false;
  return after.strips.every(({ addr, bytes, pool, kind }, k) => {
    const other = before.strips[k];
    return addr === other.addr && bytes === other.bytes && pool === other.pool && kind === other.kind;
  });
}

/**
 * Lays out again, with the byte of `anchor` at y px of the view.
 *
 * @param {Pool} pool
 * @param {Moment} moment
 * @param {{ hit: Hit, y: number } | null} [anchor]
 */
function relayout(pool, moment, anchor = null) {
  const groups = groupStrips(pool.data, moment);
  pool.width = Math.max(pool.scroller.clientWidth || pool.width, 160);
  const fitted = fitScale(moment, groups, pool.width, wantedHeight(pool, moment, groups));
  const layout = layoutStrips(moment, groups, pool.width, fitted / pool.zoom);
  pool.picture = { moment, groups, layout };
  pool.height = Math.max(Math.min(layout.height, MAX_HEIGHT), MIN_HEIGHT);
  pool.ratio = Math.min(devicePixelRatio || 1, 2);
  pool.scroller.style.height = `${pool.height}px`;
  pool.stage.style.height = `${pool.height}px`;
  pool.spacer.style.height = `${Math.max(layout.height - pool.height, 0)}px`;
  for (const canvas of [pool.canvas, pool.over]) {
    canvas.width = Math.floor(pool.width * pool.ratio);
    canvas.height = Math.floor(pool.height * pool.ratio);
    canvas.style.width = `${pool.width}px`;
    canvas.style.height = `${pool.height}px`;
  }
  if (anchor) {
    const [box] = boxesOfHit(moment, layout, anchor.hit);
    if (box) pool.scroller.scrollTop = box.y - anchor.y;
  }
  requestPaint(pool);
}

/**
 * A few blocks need a few lines; many of them as many as there is room for.
 *
 * @param {Pool} pool
 * @param {Moment} moment
 * @param {StripGroup[]} groups
 */
function wantedHeight(pool, moment, groups) {
  // The number never falls, so that the map does not jump from moment to moment.
  pool.numLines = Math.max(pool.numLines, Math.ceil(moment.allocations.length / 4), moment.strips.length);
  return Math.min(MAX_HEIGHT - 4, groups.length * 26 + pool.numLines * LINE_HEIGHT);
}

/**
 * Colours the blocks that show.
 *
 * @param {Pool} pool
 * @returns {Legend}
 */
function recolor(pool) {
  if (!pool.picture) return [];
  const { moment } = pool.picture;
  const { isDimmed } = pool;
  const coloring = coloringOf(pool.data, moment, pool.color, pool.theme);
  pool.colors = {
    coloring,
    codes: Uint16Array.from(moment.allocations, coloring.of),
    isDim: isDimmed && Uint8Array.from(moment.allocations, (allocation) => (isDimmed(allocation) ? 1 : 0)),
  };
  requestPaint(pool);
  return coloring.legend;
}

/** @param {Pool} pool */
function requestPaint(pool) {
  if (pool.pending) return;
  pool.pending = requestAnimationFrame(() => {
    pool.pending = 0;
    const { picture, colors } = pool;
    if (picture && colors?.codes.length === picture.moment.allocations.length) paintPool(pool, picture, colors);
  });
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {PoolColors} colors
 */
function paintPool(pool, { moment, layout }, colors) {
  const { data, theme, height, ratio } = pool;
  const began = performance.now();
  const style = getComputedStyle(pool.canvas);
  const [ink, font, top] = [style.color, style.fontFamily, pool.scroller.scrollTop];
  drawPool(contextOf(pool.canvas), { data, moment, layout, ...colors, theme, top, height, ratio, ink, font });
  paintMarks(pool);
  pool.script.push(performance.now() - began);
  if (pool.script.length > 2000) pool.script.splice(0, 1000);
}

/**
 * Outlines the block under the pointer and the chosen one.
 *
 * @param {Pool} pool
 */
function paintMarks(pool) {
  const { picture, hover, chosen } = pool;
  const context = contextOf(pool.over);
  context.setTransform(pool.ratio, 0, 0, pool.ratio, 0, 0);
  context.clearRect(0, 0, pool.width, pool.height);
  if (!picture) return;
  context.strokeStyle = getComputedStyle(pool.canvas).color;
  if (hover) outline(pool, picture, context, hover, 1.5);
  if (chosen) outline(pool, picture, context, chosen, 2.5);
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {CanvasRenderingContext2D} context
 * @param {Hit} hit
 * @param {number} width
 */
function outline({ scroller, height }, { moment, layout }, context, hit, width) {
  if (hit.strip >= moment.strips.length) return;
  const top = scroller.scrollTop;
  context.lineWidth = width;
  for (const box of boxesOfHit(moment, layout, hit)) {
    if (box.y + LINE_HEIGHT < top || box.y > top + height) continue;
    context.strokeRect(box.x - 0.5, box.y - top - 0.5, Math.max(box.width, 2) + 1, box.height + 1);
  }
}

/**
 * @param {Pool} pool
 * @param {number} factor
 * @param {Point | null} point Which stays in place; the upper third where null.
 */
function zoom(pool, factor, point) {
  if (!pool.picture) return;
  const { moment, layout } = pool.picture;
  const y = point ? point.y : pool.height / 3;
  const hit = hitUnder(pool, { x: point ? point.x : 1, y });
  const most = Math.max((MAX_LINES / Math.max(layout.lines.length, 1)) * pool.zoom, 1);
  pool.zoom = Math.min(Math.max(pool.zoom * factor, 1), most);
  pool.tip.hidden = true;
  relayout(pool, moment, hit && { hit: { ...hit, bytes: Math.max(hit.bytes, 1) }, y });
}

/**
 * @param {Pool} pool
 * @param {Point} point On the canvas.
 * @returns {Hit | null}
 */
function hitUnder({ data, picture, scroller }, { x, y }) {
  return picture && hitAtPoint(data, picture.moment, picture.layout, x, y + scroller.scrollTop);
}

/** @param {Pool} pool */
function listenToPool(pool) {
  const { canvas, scroller } = pool;
  const pointOf = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const onWheel = (/** @type {WheelEvent} */ event) => {
    if (!(event.ctrlKey || event.metaKey) || !pool.picture) return;
    event.preventDefault();
    zoom(pool, Math.exp(-event.deltaY / 200), pointOf(event));
  };
  scroller.addEventListener("scroll", () => requestPaint(pool));
  scroller.addEventListener("wheel", onWheel, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    const point = pointOf(event);
    if (pool.picture) setHover(pool, hitUnder(pool, point), point);
  });
  canvas.addEventListener("pointerleave", () => setHover(pool, null, { x: 0, y: 0 }));
  canvas.addEventListener("click", (event) => {
    if (pool.picture) choose(pool, hitUnder(pool, pointOf(event)), false);
  });
  canvas.addEventListener("keydown", (event) =>
    onPoolKey(pool, event, {
      choose: (hit, isScrolled) => choose(pool, hit, isScrolled),
      zoom: (factor) => zoom(pool, factor, null),
    }),
  );
}

/**
 * @param {Pool} pool
 * @param {Hit | null} hit
 * @param {Point} point
 */
function setHover(pool, hit, point) {
  const { tip } = pool;
  const isSame = hit !== null && hit.strip === pool.hover?.strip && hit.from === pool.hover.from;
  pool.hover = hit;
  tip.hidden = !hit;
  if (hit) {
    if (!isSame) tip.replaceChildren(...pool.options.describe(hit).map((text) => element("div", {}, text)));
    const left = Math.min(point.x + 14, pool.width - tip.offsetWidth - 4);
    const hasRoom = point.y + 18 + tip.offsetHeight < pool.height;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${hasRoom ? point.y + 18 : Math.max(point.y - tip.offsetHeight - 8, 0)}px`;
  }
  if (!isSame) paintMarks(pool);
}

/**
 * @param {Pool} pool
 * @param {Hit | null} hit
 * @param {boolean} isScrolled Whether the map scrolls to it.
 */
function choose(pool, hit, isScrolled) {
  const { picture, scroller, height, options } = pool;
  pool.chosen = hit;
  if (hit && picture && isScrolled) {
    const [box] = boxesOfHit(picture.moment, picture.layout, hit);
    const top = scroller.scrollTop;
    if (box && (box.y < top || box.y + LINE_HEIGHT > top + height)) scroller.scrollTop = box.y - height / 2;
  }
  if (picture) paintMarks(pool);
  pool.spoken.textContent = hit ? options.describe(hit).join(", ") : "";
  options.onChoose(hit);
}
