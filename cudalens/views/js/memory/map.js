// A device's memory: the curve of what it held, the map of its pools at one moment, who holds it, fragmentation and call
// stacks. All of them show the same moment, which the curve sets: the end at first.

import { MM_COLORS } from "./colors.js";
import { mmButton, mmChoice, mmSeriesLegend } from "./controls.js";
import { mmCreateCurve, mmMomentText } from "./curve.js";
import { decodeMemory, mmCurves, mmPeakRow } from "./data.js";
import { mmDescribe, mmRenderDetails, mmRenderFragmentation, mmRenderHolders } from "./facts.js";
import { mmRowAtTime } from "./curve_draw.js";
import { mmCreateFlame } from "./flame.js";
import { mmGroupings, mmKeyOf, mmMoment } from "./moment.js";
import { mmCreatePool } from "./pool.js";
import { uiElement, uiPlural, uiSize } from "../shared/dom.js";

const MM_REST_MS = 80;

/**
 * Builds the memory of a trace in `host`.
 *
 * @param {Uint8Array} bytes The payload of cudalens/views/memory/map_payload.py.
 * @param {object} options {theme}
 * @returns {Promise<object>} showMoment(row, since), showStretch([from, to], origin), showDevice(k), setColor(mode), moment, data, pool, curve, flame, setTheme, resize,
 *   destroy.
 */
export async function createMemoryMap(host, bytes, { theme }) {
  const data = await decodeMemory(bytes);
  const state = { data, host, device: mmLargestDevice(data), row: data.numRows - 1, since: null, by: mmFirstColor(data), picked: null,
    color: mmFirstColor(data), chosen: null, node: null };
  const parts = (state.parts = mmSkeleton(state));
  host.replaceChildren(...parts.all);
  state.curve = mmCreateCurve(parts.curve, data, { theme, onMoment: (row, since) => mmSetMoment(state, row, since) });
  state.pool = mmCreatePool(parts.map, data, { theme, color: state.color,
    describe: (hit) => mmDescribe(data, state.moment, hit), onChoose: (hit) => mmChosen(state, hit) });
  state.flame = mmCreateFlame(parts.flame, data, { theme, onZoom: (isInside) => mmPickFlame(state, isInside) });
  mmSetDevice(state, state.device);
  return {
    data,
    get moment() { return state.moment; },
    get chosen() { return state.chosen; },
    get since() { return state.since; },
    pool: state.pool,
    curve: state.curve,
    flame: state.flame,
    showMoment: (row, since = null) => mmSetMoment(state, row, since),
    // A stretch of time in ns from `origin` (text), as the timeline selects it: what it made and what stayed of that.
    showStretch([from, to], origin) {
      if (!data.clock) return;
      const shift = Number(BigInt(origin) - BigInt(data.header.t0));
      const [since, row] = [from, to].map((ns) => mmRowAtTime(data, ns + shift));
      mmSetMoment(state, row, since === row ? null : since);
    },
    showDevice: (k) => mmSetDevice(state, k),
    setColor: (mode) => mmSetColor(state, mode),
    setTheme(name) {
      state.curve.setTheme(name);
      mmLegend(state, state.pool.setTheme(name));
      state.flame.setTheme(name);
    },
    resize() {
      for (const view of [state.curve, state.pool, state.flame]) view.resize();
    },
    destroy() {
      cancelAnimationFrame(state.pending);
      clearTimeout(state.settling);
      for (const view of [state.curve, state.pool, state.flame]) view.destroy();
      host.replaceChildren();
    },
  };
}

function mmLargestDevice(data) {
  const { devices } = data.header;
  return devices.reduce((best, one, k) => (one.reserved_bytes > devices[best].reserved_bytes ? k : best), 0);
}

// What tells the blocks apart: categories where any is known, else call stacks.
function mmFirstColor(data) {
  return data.lives.category.some((code) => code > 0) || !data.stacks.n ? "category" : "stack";
}

function mmSkeleton(state) {
  const { data } = state;
  const { devices, hidden } = data.header;
  const parts = { curve: uiElement("div", { class: "mm-curve" }), map: uiElement("div", { class: "mm-map" }),
    details: uiElement("aside", { class: "mm-details", "aria-label": "Chosen block", hidden: true }),
    moment: uiElement("p", { class: "mm-moment", "aria-live": "polite" }), legend: uiElement("p", { class: "mm-legend" }),
    bar: uiElement("div", { class: "mm-fragmentation" }), holders: uiElement("div", { class: "mm-holders" }),
    flame: uiElement("div", { class: "mm-flame" }) };
  const deviceChoice = (parts.devices = mmChoice("Device", devices.map(({ label }, k) => [String(k), label]), String(state.device), (k) => mmSetDevice(state, Number(k))));
  const axis = mmChoice("Axis", [["time", "time"], ["action", "actions"]], "time", (key) => state.curve.setAxis(key === "time"));
  const jump = uiElement("div", { class: "mm-choice", role: "group", "aria-label": "Moment" },
    mmButton("At the peak", "Show the moment of the peak", () => mmSetMoment(state, state.peak.row, null)),
    mmButton("At the end", "Show the last moment", () => mmSetMoment(state, data.numRows - 1, null)));
  const zoom = uiElement("div", { class: "mm-choice", role: "group", "aria-label": "Zoom of the map" },
    mmButton("−", "Zoom out", () => state.pool.zoomBy(1 / 1.6)), mmButton("+", "Zoom in", () => state.pool.zoomBy(1.6)),
    mmButton("fit", "Show all", () => state.pool.fit()));
  const colors = (parts.colors = mmChoice("Colour", Object.entries(MM_COLORS).map(([key, text]) => [key, text.toLowerCase()]), state.color, (mode) => mmSetColor(state, mode)));
  const by = mmChoice("By", mmGroupings(data), state.by, (key) => mmSetBy(state, key));
  const hasHistory = data.numRows > 0;
  const note = hidden.num ? uiElement("p", { class: "cl-hint" },
    `${uiPlural(hidden.num, "small allocation")} (${uiSize(hidden.bytes)} together) are in the curve and not in the map.`) : null;
  parts.all = [
    devices.length > 1 ? deviceChoice : null,
    hasHistory ? uiElement("div", { class: "mm-tools" }, mmSeriesLegend(), data.clock ? axis : null, jump) : null,
    hasHistory ? parts.curve : null,
    hasHistory ? uiElement("p", { class: "cl-hint" }, "Click or drag along the curve to see what was there then.") : null,
    parts.moment, note, parts.bar,
    uiElement("div", { class: "mm-tools" }, colors, zoom), parts.legend,
    uiElement("div", { class: "mm-columns" }, parts.map, parts.details),
    uiElement("div", { class: "mm-tools" }, uiElement("h4", {}, "Who holds it"), by), parts.holders,
    data.stacks.n ? uiElement("h4", {}, "Bytes by call stack") : null, data.stacks.n ? parts.flame : null,
  ].filter(Boolean);
  return parts;
}

function mmSetDevice(state, device) {
  const { data } = state;
  state.device = device;
  state.parts.devices.mark(String(device));
  state.picked = null;
  if (data.numRows) {
    const curves = mmCurves(data, device);
    const row = mmPeakRow(curves.allocated);
    state.peak = { row, bytes: curves.allocated[row + 1] };
    const { index } = data.header.devices[device];
    state.curve.show(curves, state.peak, data.header.marks.filter((mark) => mark.device === null || mark.device === index));
  }
  mmSetMoment(state, state.row, state.since);
}

// At once: the cursor; with the next frame: what depends on what was there.
function mmSetMoment(state, row, since) {
  state.row = row;
  state.since = since;
  if (state.data.numRows) state.curve.setMoment(row, since);
  if (!state.moment) {
    mmShowNow(state);
    return;
  }
  cancelAnimationFrame(state.pending);
  state.pending = requestAnimationFrame(() => mmShowNow(state));
}

function mmShowNow(state) {
  const { data, row, since, parts } = state;
  state.moment = mmMoment(data, state.device, row);
  const counted = (state.counted = since === null ? state.moment.lives : state.moment.lives.filter((life) => data.lives.alloc[life] > since));
  parts.moment.replaceChildren(...mmMomentWords(state));
  mmRenderFragmentation(parts.bar, state.moment);
  mmLegend(state, state.pool.show(state.moment));
  mmDim(state);
  // Tables and call stacks wait until the moment has come to rest: they are no part of a drag's frames.
  clearTimeout(state.settling);
  state.settling = setTimeout(() => mmSettle(state), state.isSettled ? MM_REST_MS : 0);
  const { chosen } = state;
  const isThere = chosen && chosen.life >= 0 && state.moment.lives.includes(chosen.life);
  if (chosen) state.pool.choose(isThere ? mmHitOfLife(state, chosen.life) : null);
}

function mmSettle(state) {
  state.isSettled = true;
  mmShowHolders(state);
  state.flame.show(state.counted);
}

function mmHitOfLife(state, life) {
  const { lives } = state.data;
  const k = state.moment.lives.indexOf(life);
  const strip = state.moment.strips.findIndex(({ first, end }) => first <= k && k < end);
  return strip < 0 ? null : { strip, life, from: lives.addr[life], bytes: lives.bytes[life] };
}

function mmMomentWords(state) {
  const { data, row, since, moment, counted } = state;
  const { sums } = moment;
  const isEnd = row === data.numRows - 1;
  const isPeak = state.peak && row === state.peak.row;
  const when = isPeak ? `At the peak (${mmMomentText(data, row)})` 
    : isEnd ? "At the end" : row < 0 ? "Before the first action" : `After ${mmMomentText(data, row)}`;
  const held = `${uiSize(sums.allocated)} allocated in ${uiPlural(moment.lives.length, "block")}, ${uiSize(sums.reserved)} reserved in ${uiPlural(moment.strips.length, "segment")}`;
  const pending = sums.pending ? `, ${uiSize(sums.pending)} freed and waiting for a stream` : "";
  const outside = moment.outside ? `; ${uiPlural(moment.outside, "block")} in no known segment` : "";
  const bytes = counted.reduce((sum, life) => sum + data.lives.bytes[life], 0);
  const made = since === null ? "" : ` ${uiSize(bytes)} of it in ${uiPlural(counted.length, "block")} came since ${mmMomentText(data, since)} and stayed; the rest is pale.`;
  return [uiElement("strong", {}, `${when}: `), `${held}${pending}${outside}.${made}`];
}

function mmShowHolders(state) {
  mmRenderHolders(state.parts.holders, state.data, state.counted, state, (key) => {
    state.picked = key;
    mmShowHolders(state);
    mmDim(state);
  });
}

// Pale is what came before the chosen stretch, what is not of the row that was picked, and what stands outside of the flame.
function mmDim(state) {
  if (!state.moment) return;
  const { lives } = state.data;
  const { since, picked, by, node } = state;
  if (since === null && picked === null && !node) state.pool.setDim(null);
  else {
    state.pool.setDim((life) => (since !== null && lives.alloc[life] <= since) || (picked !== null && mmKeyOf(state.data, life, by) !== picked) ||
      (node !== null && !node(lives.stack[life])));
  }
}

function mmPickFlame(state, isInside) {
  state.node = isInside;
  mmDim(state);
}

function mmSetBy(state, by) {
  state.by = by;
  state.picked = null;
  mmShowHolders(state);
  mmDim(state);
}

function mmSetColor(state, mode) {
  state.color = mode;
  state.parts.colors.mark(mode);
  mmLegend(state, state.pool.setColor(mode));
}

function mmLegend(state, legend) {
  const free = uiElement("span", { class: "mm-key" }, uiElement("i", { class: "mm-free" }), "free");
  const waits = state.moment.sums.pending ? [uiElement("span", { class: "mm-key" }, uiElement("i", { class: "mm-waits" }), "waits for a stream")] : [];
  state.parts.legend.replaceChildren(...legend.map(({ css, label }) => {
    const swatch = uiElement("i", {});
    swatch.style.background = css;
    return uiElement("span", { class: "mm-key", title: label }, swatch, label);
  }), ...waits, free);
}

function mmChosen(state, hit) {
  state.chosen = hit;
  const was = state.parts.details.hidden;
  mmRenderDetails(state.parts.details, state.data, state.moment, hit);
  if (was !== state.parts.details.hidden) state.pool.resize();
}
