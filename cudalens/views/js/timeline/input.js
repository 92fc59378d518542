// Mouse, touch and keys. A notebook page must keep scrolling: the plain wheel zooms only between a click into the
// timeline and the moment the pointer leaves it; Ctrl or Meta with the wheel zooms at any time.

import { overviewTime } from "./overview.js";
import { listen } from "./state.js";
import { HEAD_HEIGHT, OVERVIEW_HEIGHT } from "./view.js";

/** @import { Actions } from "./actions.js" */
/** @import { Direction } from "./nav.js" */
/** @import { Timeline, Zone } from "./state.js" */

const CLICK_PX = 4;
/** @type {{ [zone in Zone]?: string }} */
const CURSORS = { gutter: "pointer", ruler: "col-resize", overview: "ew-resize" };

/**
 * Place of the pointer on the canvas, px.
 *
 * @param {HTMLElement} canvas
 * @param {MouseEvent} event
 * @returns {[x: number, y: number]}
 */
function pointOf(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 * @param {number} y
 * @returns {Zone}
 */
function zoneOf(timeline, x, y) {
  if (x < timeline.size.gutter) return y < HEAD_HEIGHT ? "corner" : "gutter";
  if (y < OVERVIEW_HEIGHT) return "overview";
  return y < HEAD_HEIGHT ? "ruler" : "plot";
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 */
export function listenToPointer(timeline, act) {
  const { canvas } = timeline.dom;
  const at = (/** @type {MouseEvent} */ event) => pointOf(canvas, event);
  listen(timeline, canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    const zone = zoneOf(timeline, x, y);
    timeline.isArmed = true;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const kind = zone === "ruler" || (zone === "plot" && event.shiftKey) ? "range" : zone;
    timeline.drag = {
      kind,
      x,
      y,
      view: [...timeline.view],
      scroll: timeline.scroll,
      moved: false,
      from: act.timeAt(x),
    };
    if (kind === "overview") act.centre(overviewTime(timeline, x));
  });
  listen(timeline, canvas, "pointermove", (event) => {
    const [x, y] = at(event);
    if (timeline.drag === null) {
      const zone = zoneOf(timeline, x, y);
      canvas.style.cursor = CURSORS[zone] ?? "default";
      if (zone === "plot") act.hover(x, y);
      else act.leave();
    } else dragTo(timeline, act, x, y);
  });
  listen(timeline, canvas, "pointerup", (event) => {
    const [x, y] = at(event);
    const { drag } = timeline;
    timeline.drag = null;
    canvas.style.cursor = "default";
    if (drag === null) return;
    if (drag.kind === "range" && drag.moved) act.finishRange();
    else if (drag.kind === "gutter") drag.moved ? act.dropLane(drag.y, y) : act.toggleLane(y);
    else if (!drag.moved && drag.kind === "range" && !act.measureTo(x, y)) act.clearRange();
    else if (!drag.moved && drag.kind === "plot") act.click(x, y);
  });
  listen(timeline, canvas, "pointercancel", () => {
    timeline.drag = null;
  });
  listen(timeline, canvas, "pointerleave", () => {
    timeline.isArmed = timeline.drag !== null;
    act.leave();
  });
  listen(timeline, canvas, "dblclick", (event) => {
    const [x, y] = at(event);
    if (zoneOf(timeline, x, y) === "plot") act.zoomToEventAt(x, y);
    else if (zoneOf(timeline, x, y) !== "gutter") act.fit();
  });
  listen(timeline, canvas, "wheel", (event) => wheel(timeline, act, event, at(event)), { passive: false });
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 * @param {number} x
 * @param {number} y
 */
function dragTo(timeline, act, x, y) {
  const { drag } = timeline;
  if (drag === null) return;
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK_PX) return;
  drag.moved = true;
  if (drag.kind === "plot") {
    timeline.dom.canvas.style.cursor = "grabbing";
    const perPx = (drag.view[1] - drag.view[0]) / (timeline.size.width - timeline.size.gutter);
    const by = (x - drag.x) * perPx;
    act.show([drag.view[0] - by, drag.view[1] - by]);
    timeline.dom.frame.scrollTop = drag.scroll - (y - drag.y);
  } else if (drag.kind === "range") {
    act.dragRange(drag.from, act.timeAt(Math.min(Math.max(x, timeline.size.gutter), timeline.size.width)));
  } else if (drag.kind === "overview") act.centre(overviewTime(timeline, x));
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 * @param {WheelEvent} event
 * @param {[x: number, y: number]} pair
 */
function wheel(timeline, act, event, [x]) {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  const isZoom = event.ctrlKey || event.metaKey;
  if (!isZoom && !timeline.isArmed) return;
  event.preventDefault();
  const sideways = event.shiftKey && dx === 0 ? dy : dx;
  if (!isZoom && (event.shiftKey || Math.abs(dx) > Math.abs(dy))) act.pan(sideways);
  else act.zoom(Math.exp(Math.min(Math.max(dy, -200), 200) * (isZoom && Math.abs(dy) < 30 ? 0.01 : 0.0022)), x);
}

/** @type {{ [key: string]: [zoom: number, pan: number] }} */
const MOTION_KEYS = { w: [1, 0], s: [-1, 0], a: [0, -1], d: [0, 1] };
/** @type {{ [key: string]: Direction }} */
const ARROW_KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 */
export function listenToKeys(timeline, act) {
  const { canvas, search } = timeline.dom;
  listen(timeline, canvas, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressed(timeline, act, event)) {
      event.preventDefault();
      // The notebook around the timeline has shortcuts on single letters.
      event.stopPropagation();
    }
  });
  listen(timeline, canvas, "keyup", (event) => timeline.held.delete(event.key.toLowerCase()));
  listen(timeline, canvas, "focus", () => act.focusChanged(true));
  listen(timeline, canvas, "blur", () => {
    timeline.held.clear();
    timeline.isArmed = false;
    act.focusChanged(false);
  });
  listen(timeline, search, "input", () => act.search(search.value));
  listen(timeline, search, "keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") act.nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      search.value = "";
      act.search("");
      canvas.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  });
}

/**
 * @param {Timeline} timeline
 * @param {Actions} act
 * @param {KeyboardEvent} event
 */
function pressed(timeline, act, event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in MOTION_KEYS) act.hold(key);
  else if (key in ARROW_KEYS) act.arrow(ARROW_KEYS[key]);
  else if (key === "Enter" || key === " ") act.enter();
  else if (key === "f" || key === "z") act.zoomToFocused();
  else if (key === "0") act.fit();
  else if (key === "b" || key === "Backspace") act.back(event.shiftKey);
  else if (key === "?") act.showKeys();
  else if (key === "l") act.follow();
  else if (key === "c") act.toggleFocusLane();
  else if (key === "p") act.pinFocusLane();
  else if (key === "/") timeline.dom.search.select();
  else if (key === "n") act.nextMatch(event.shiftKey ? -1 : 1);
  else if (key === "+" || key === "=") act.zoom(0.7, null);
  else if (key === "-") act.zoom(1 / 0.7, null);
  else if (key === "Home" || key === "End") act.toEnd(key === "End");
  else if (key === "PageUp" || key === "PageDown")
    timeline.dom.frame.scrollBy(0, (key === "PageUp" ? -0.8 : 0.8) * timeline.size.height);
  else if (key === "Escape") return act.escape();
  else return false;
  return true;
}

/**
 * The sum of what the held keys ask for.
 *
 * @param {Iterable<string>} held
 * @returns {[zoom: number, pan: number]}
 */
export function heldMotion(held) {
  const sum = /** @type {[number, number]} */ ([0, 0]);
  for (const key of held) {
    sum[0] += MOTION_KEYS[key][0];
    sum[1] += MOTION_KEYS[key][1];
  }
  return sum;
}
