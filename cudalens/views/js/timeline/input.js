// Mouse, touch and keys. A notebook page must keep scrolling: the plain wheel zooms only between a click into the timeline
// and the moment the pointer leaves it; Ctrl or Meta with the wheel zooms at any time.

import { overviewTime } from "./overview.js";
import { TL_HEAD, TL_OVERVIEW } from "./view.js";

const TL_CLICK_PX = 4;

function zoneOf(tl, x, y) {
  if (x < tl.size.gutter) return y < TL_HEAD ? "corner" : "gutter";
  if (y < TL_OVERVIEW) return "overview";
  return y < TL_HEAD ? "ruler" : "plot";
}

export function listenToPointer(tl, act) {
  const { canvas } = tl.dom;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  tl.listen(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    const zone = zoneOf(tl, x, y);
    tl.isArmed = true;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const kind = zone === "ruler" || (zone === "plot" && event.shiftKey) ? "range" : zone;
    tl.drag = { kind, x, y, view: [...tl.view], scroll: tl.scroll, moved: false, from: act.timeAt(x) };
    if (kind === "overview") act.centre(overviewTime(tl, x));
  });
  tl.listen(canvas, "pointermove", (event) => {
    const [x, y] = at(event);
    if (tl.drag === null) {
      canvas.style.cursor = { gutter: "pointer", ruler: "col-resize", overview: "ew-resize" }[zoneOf(tl, x, y)] ?? "default";
      act.hover(x, y, zoneOf(tl, x, y) === "plot");
    } else dragTo(tl, act, x, y);
  });
  tl.listen(canvas, "pointerup", (event) => {
    const [x, y] = at(event);
    const { drag } = tl;
    tl.drag = null;
    canvas.style.cursor = "default";
    if (drag === null) return;
    if (drag.kind === "range" && drag.moved) act.finishRange();
    else if (!drag.moved && drag.kind === "gutter") act.toggleLane(y);
    else if (!drag.moved && drag.kind === "range") act.clearRange();
    else if (!drag.moved && drag.kind === "plot") act.click(x, y);
  });
  tl.listen(canvas, "pointercancel", () => (tl.drag = null));
  tl.listen(canvas, "pointerleave", () => {
    tl.isArmed = tl.drag !== null;
    act.hover(0, 0, false);
  });
  tl.listen(canvas, "dblclick", (event) => {
    const [x, y] = at(event);
    if (zoneOf(tl, x, y) === "plot") act.zoomToEventAt(x, y);
    else if (zoneOf(tl, x, y) !== "gutter") act.fit();
  });
  tl.listen(canvas, "wheel", (event) => wheel(tl, act, event, at(event)), { passive: false });
}

function dragTo(tl, act, x, y) {
  const { drag } = tl;
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < TL_CLICK_PX) return;
  drag.moved = true;
  if (drag.kind === "plot") {
    tl.dom.canvas.style.cursor = "grabbing";
    const perPx = (drag.view[1] - drag.view[0]) / (tl.size.width - tl.size.gutter);
    act.show(drag.view.map((t) => t - (x - drag.x) * perPx));
    tl.dom.frame.scrollTop = drag.scroll - (y - drag.y);
  } else if (drag.kind === "range") {
    act.dragRange(drag.from, act.timeAt(Math.min(Math.max(x, tl.size.gutter), tl.size.width)));
  } else if (drag.kind === "overview") act.centre(overviewTime(tl, x));
}

function wheel(tl, act, event, [x]) {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  const isZoom = event.ctrlKey || event.metaKey;
  if (!isZoom && !tl.isArmed) return;
  event.preventDefault();
  const sideways = event.shiftKey && dx === 0 ? dy : dx;
  if (!isZoom && (event.shiftKey || Math.abs(dx) > Math.abs(dy))) act.pan(sideways);
  else act.zoom(Math.exp(Math.min(Math.max(dy, -200), 200) * (isZoom && Math.abs(dy) < 30 ? 0.01 : 0.0022)), x);
}

const TL_HELD = { w: [1, 0], s: [-1, 0], a: [0, -1], d: [0, 1] };
const TL_ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };

export function listenToKeys(tl, act) {
  const { canvas, search } = tl.dom;
  tl.listen(canvas, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressed(tl, act, event)) {
      event.preventDefault();
      // The notebook around us has shortcuts of its own on bare letters.
      event.stopPropagation();
    }
  });
  tl.listen(canvas, "keyup", (event) => tl.held.delete(event.key.toLowerCase()));
  tl.listen(canvas, "focus", () => act.focusChanged(true));
  tl.listen(canvas, "blur", () => {
    tl.held.clear();
    tl.isArmed = false;
    act.focusChanged(false);
  });
  tl.listen(search, "input", () => act.search(search.value));
  tl.listen(search, "keydown", (event) => {
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

function pressed(tl, act, event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in TL_HELD) act.hold(key, TL_HELD[key]);
  else if (key in TL_ARROWS) act.arrow(TL_ARROWS[key]);
  else if (key === "Enter" || key === " ") act.enter(event.shiftKey);
  else if (key === "f") act.fit();
  else if (key === "z") act.zoomToFocused();
  else if (key === "l") act.follow();
  else if (key === "c") act.toggleFocusLane();
  else if (key === "/") tl.dom.search.select();
  else if (key === "n") act.nextMatch(event.shiftKey ? -1 : 1);
  else if (key === "+" || key === "=") act.zoom(0.7, null);
  else if (key === "-") act.zoom(1 / 0.7, null);
  else if (key === "Home" || key === "End") act.toEnd(key === "End");
  else if (key === "PageUp" || key === "PageDown") tl.dom.frame.scrollBy(0, (key === "PageUp" ? -0.8 : 0.8) * tl.size.height);
  else if (key === "Escape") return act.escape();
  else return false;
  return true;
}

export const heldMotion = (held) => [...held].reduce(([z, p], key) => [z + TL_HELD[key][0], p + TL_HELD[key][1]], [0, 0]);
