// The pool map: a scrolling canvas of the strips of memory at one moment. Ctrl and the wheel, + and − zoom; a click or the
// arrow keys choose a block.

import { mmColoring } from "./colors.js";
import { mmDraw } from "./draw.js";
import { mmBoxes, mmFit, mmGroups, mmHit, mmLayout, MM_LINE } from "./layout.js";
import { mmKey } from "./pool_keys.js";
import { uiElement } from "../shared/dom.js";

const MM_HEIGHT = 420;
const MM_MIN_HEIGHT = 60;
const MM_MAX_LINES = 60000;

/**
 * Builds the map in `host`.
 *
 * @param {object} options {theme, color, describe(hit) -> text, onChoose(hit or null)}
 * @returns {object} show(moment), setColor, setDim(function of a life, or null), choose(hit), zoomBy, fit, setTheme, resize,
 *   stats (times of drawing, ms), hitAt(x, y), destroy.
 */
export function mmCreatePool(host, data, options) {
  const canvas = uiElement("canvas", { class: "mm-canvas", tabindex: 0, role: "application",
    "aria-label": "Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all." });
  const over = uiElement("canvas", { class: "mm-over", "aria-hidden": "true" });
  const spacer = uiElement("div", { class: "mm-spacer" });
  const stage = uiElement("div", { class: "mm-stage" }, canvas, over);
  const scroller = uiElement("div", { class: "mm-scroll" }, stage, spacer);
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  const said = uiElement("p", { class: "mm-said", "aria-live": "polite" });
  host.replaceChildren(scroller, tip, said);
  const pool = { data, options, canvas, over, stage, spacer, scroller, tip, said, theme: options.theme, color: options.color,
    isDimmed: null, zoom: 1, hover: null, chosen: null, script: [], pending: 0, numLines: 3 };
  mmListen(pool);
  return {
    show: (moment) => mmShowMoment(pool, moment),
    setColor(color) {
      pool.color = color;
      return mmRecolor(pool);
    },
    setDim(isDimmed) {
      pool.isDimmed = isDimmed;
      mmRecolor(pool);
    },
    choose: (hit) => mmChoose(pool, hit, true),
    zoomBy: (factor) => mmZoom(pool, factor, null),
    fit: () => mmZoom(pool, 1 / pool.zoom, null),
    setTheme(theme) {
      pool.theme = theme;
      return mmRecolor(pool);
    },
    resize: () => pool.moment && pool.scroller.clientWidth !== pool.width && mmRelayout(pool),
    stats: () => ({ script: pool.script, zoom: pool.zoom, lines: pool.layout?.lines.length ?? 0 }),
    hitAt: (x, y) => mmHit(data, pool.moment, pool.layout, x, y + scroller.scrollTop),
    boxesOf: (hit) => mmBoxes(pool.moment, pool.layout, hit),
    destroy() {
      cancelAnimationFrame(pool.pending);
      host.replaceChildren();
    },
  };
}

function mmShowMoment(pool, moment) {
  const isSame = pool.layout && mmHasSameStrips(pool.moment, moment);
  pool.moment = moment;
  pool.groups = mmGroups(pool.data, moment);
  pool.hover = null;
  pool.tip.hidden = true;
  if (isSame) pool.groups.forEach((group, k) => (pool.layout.heads[k].group = group));
  else mmRelayout(pool);
  return mmRecolor(pool);
}

// Whether two moments have their strips in common, so that nothing moves from one to the other.
function mmHasSameStrips(before, after) {
  return before.device === after.device && before.strips.length === after.strips.length && after.strips.every((strip, k) => {
    const other = before.strips[k];
    return strip.addr === other.addr && strip.bytes === other.bytes && strip.pool === other.pool && strip.kind === other.kind;
  });
}

// Lays out anew, keeping what stands at the top of the view, or at `anchor` {address's strip and byte, y}.
function mmRelayout(pool, anchor = null) {
  const width = (pool.width = Math.max(pool.scroller.clientWidth || pool.width || 0, 160));
  pool.fitted = mmFit(pool.moment, pool.groups, width, mmWantedHeight(pool));
  pool.layout = mmLayout(pool.moment, pool.groups, width, pool.fitted / pool.zoom);
  pool.height = Math.max(Math.min(pool.layout.height, MM_HEIGHT), MM_MIN_HEIGHT);
  pool.scroller.style.height = `${pool.height}px`;
  pool.stage.style.height = `${pool.height}px`;
  pool.spacer.style.height = `${Math.max(pool.layout.height - pool.height, 0)}px`;
  pool.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [pool.canvas, pool.over]) {
    canvas.width = Math.floor(width * pool.ratio);
    canvas.height = Math.floor(pool.height * pool.ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${pool.height}px`;
  }
  if (anchor) {
    const [box] = mmBoxes(pool.moment, pool.layout, anchor.hit);
    if (box) pool.scroller.scrollTop = box.y - anchor.y;
  }
  mmPaint(pool);
}

// A few blocks need a few lines; many of them as many as there is room for.
function mmWantedHeight(pool) {
  const { moment, groups } = pool;
  // What was needed once stays, so that the map does not jump from moment to moment.
  pool.numLines = Math.max(pool.numLines, Math.ceil(moment.lives.length / 4), moment.strips.length);
  return Math.min(MM_HEIGHT - 4, groups.length * 26 + pool.numLines * MM_LINE);
}

// Colours of the blocks that show; returns the legend.
function mmRecolor(pool) {
  if (!pool.moment) return [];
  const { lives } = pool.moment;
  pool.coloring = mmColoring(pool.data, pool.moment, pool.color, pool.theme);
  pool.codes = Uint16Array.from(lives, (life) => pool.coloring.of(life));
  pool.isDim = pool.isDimmed ? Uint8Array.from(lives, (life) => (pool.isDimmed(life) ? 1 : 0)) : null;
  mmPaint(pool);
  return pool.coloring.legend;
}

function mmPaint(pool) {
  if (pool.pending) return;
  pool.pending = requestAnimationFrame(() => {
    pool.pending = 0;
    if (pool.layout && pool.coloring && pool.codes.length === pool.moment.lives.length) mmPaintNow(pool);
  });
}

function mmPaintNow(pool) {
  const began = performance.now();
  const style = getComputedStyle(pool.canvas);
  const top = pool.scroller.scrollTop;
  mmDraw(pool.canvas.getContext("2d"), { ...pool, top, ink: style.color, font: style.fontFamily });
  mmPaintOver(pool);
  pool.script.push(performance.now() - began);
  if (pool.script.length > 2000) pool.script.splice(0, 1000);
}

function mmPaintOver(pool) {
  const context = pool.over.getContext("2d");
  const top = pool.scroller.scrollTop;
  context.setTransform(pool.ratio, 0, 0, pool.ratio, 0, 0);
  context.clearRect(0, 0, pool.width, pool.height);
  for (const [hit, width] of [[pool.hover, 1.5], [pool.chosen, 2.5]]) {
    if (!hit || hit.strip >= pool.moment.strips.length) continue;
    context.strokeStyle = getComputedStyle(pool.canvas).color;
    context.lineWidth = width;
    for (const box of mmBoxes(pool.moment, pool.layout, hit)) {
      if (box.y + MM_LINE < top || box.y > top + pool.height) continue;
      context.strokeRect(box.x - 0.5, box.y - top - 0.5, Math.max(box.width, 2) + 1, box.height + 1);
    }
  }
}

function mmZoom(pool, factor, point) {
  if (!pool.moment) return;
  const { layout, scroller } = pool;
  const y = point ? point.y : pool.height / 3;
  const hit = mmHit(pool.data, pool.moment, layout, point ? point.x : 1, y + scroller.scrollTop);
  const most = Math.max((MM_MAX_LINES / Math.max(layout.lines.length, 1)) * pool.zoom, 1);
  pool.zoom = Math.min(Math.max(pool.zoom * factor, 1), most);
  pool.tip.hidden = true;
  mmRelayout(pool, hit && { hit: { ...hit, bytes: Math.max(hit.bytes, 1) }, y });
}

function mmListen(pool) {
  const { canvas, scroller } = pool;
  const pointOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const hitOf = (point) => mmHit(pool.data, pool.moment, pool.layout, point.x, point.y + scroller.scrollTop);
  scroller.addEventListener("scroll", () => mmPaint(pool));
  scroller.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey) || !pool.moment) return;
    event.preventDefault();
    mmZoom(pool, Math.exp(-event.deltaY / 200), pointOf(event));
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (!pool.moment) return;
    const point = pointOf(event);
    mmHover(pool, hitOf(point), point);
  });
  canvas.addEventListener("pointerleave", () => mmHover(pool, null));
  canvas.addEventListener("click", (event) => {
    if (pool.moment) mmChoose(pool, hitOf(pointOf(event)), false);
  });
  canvas.addEventListener("keydown", (event) => mmKey(pool, event, {
    choose: (hit, isScrolled) => mmChoose(pool, hit, isScrolled),
    zoom: (factor, point) => mmZoom(pool, factor, point),
  }));
}

function mmHover(pool, hit, point) {
  const { tip } = pool;
  const isSame = hit && pool.hover && hit.strip === pool.hover.strip && hit.from === pool.hover.from;
  pool.hover = hit;
  tip.hidden = !hit;
  if (hit) {
    if (!isSame) tip.replaceChildren(...pool.options.describe(hit).map((text) => uiElement("div", {}, text)));
    const left = Math.min(point.x + 14, pool.width - tip.offsetWidth - 4);
    const below = point.y + 18 + tip.offsetHeight < pool.height;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${below ? point.y + 18 : Math.max(point.y - tip.offsetHeight - 8, 0)}px`;
  }
  if (!isSame) mmPaintOver(pool);
}

function mmChoose(pool, hit, isScrolled) {
  pool.chosen = hit;
  if (hit && isScrolled) {
    const [box] = mmBoxes(pool.moment, pool.layout, hit);
    const top = pool.scroller.scrollTop;
    if (box && (box.y < top || box.y + MM_LINE > top + pool.height)) pool.scroller.scrollTop = box.y - pool.height / 2;
  }
  if (pool.moment) mmPaintOver(pool);
  pool.said.textContent = hit ? pool.options.describe(hit).join(", ") : "";
  pool.options.onChoose(hit);
}
