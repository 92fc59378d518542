// A device's memory: the curve of what it held, the map of its pools at one moment, who holds it, fragmentation and
// call stacks. All of them show the same moment, which the curve sets: the peak at first.

import { element } from "../shared/dom.js";
import { formatBytes, formatPlural } from "../shared/format.js";
import { bandsOf } from "./bands.js";
import { describeHit, renderBlockDetails } from "./block_details.js";
import { createCurve, momentText } from "./curve.js";
import { rowAtTime } from "./curve_axis.js";
import { curvesOf, peakRowOf } from "./curves.js";
import { decodeMemory } from "./data.js";
import { createFlameGraph } from "./flame.js";
import { renderFragmentation } from "./fragmentation.js";
import { groupKey } from "./grouping.js";
import { renderHolders } from "./holders.js";
import { buildParts, showLegend } from "./map_parts.js";
import { momentAt } from "./moment.js";
import { createPoolMap } from "./pool.js";

/** @import { ThemeName } from "../shared/theme.js" */
/** @import { ColorMode, Legend } from "./colors.js" */
/** @import { CurveView } from "./curve.js" */
/** @import { Peak } from "./curve_axis.js" */
/** @import { MemoryData } from "./data.js" */
/** @import { StackFlameView } from "./flame.js" */
/** @import { Grouping } from "./grouping.js" */
/** @import { Hit } from "./layout.js" */
/** @import { MapParts } from "./map_parts.js" */
/** @import { Moment } from "./moment.js" */
/** @import { PoolView } from "./pool.js" */

/**
 * @typedef {object} MemoryMapView
 * @property {MemoryData} data
 * @property {Moment} moment
 * @property {Hit | null} chosen
 * @property {number | null} since
 * @property {PoolView} pool
 * @property {CurveView} curve
 * @property {StackFlameView} flame
 * @property {(row: number, since?: number | null) => void} showMoment
 * @property {(range: [number, number], origin: string) => void} showStretch A stretch of time in ns from `origin`: what
 *   it made and what stayed of that.
 * @property {(device: number) => void} showDevice
 * @property {(mode: ColorMode) => void} setColor
 * @property {(name: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => void} destroy
 */

/**
 * @typedef {object} MapState
 * @property {MemoryData} data
 * @property {number} device Index into header.devices.
 * @property {number} row
 * @property {number | null} since The row that a chosen stretch begins with.
 * @property {Moment} moment
 * @property {Int32Array} counted Allocations of the moment that the tables count.
 * @property {Peak | null} peak
 * @property {Grouping} by
 * @property {string | number | null} picked Group of the table.
 * @property {ColorMode} color
 * @property {ThemeName} theme
 * @property {Hit | null} chosen
 * @property {((stack: number) => boolean) | null} isInNode Whether a stack is in the node that the flame graph shows.
 * @property {boolean} isSettled
 * @property {number} pending Animation frame that is requested.
 * @property {ReturnType<typeof setTimeout> | undefined} settling
 */

/** @typedef {MapState & { parts: MapParts, curve: CurveView, pool: PoolView, flame: StackFlameView }} MemoryMap */

const SETTLE_MS = 80;

/**
 * Builds the memory of a trace in `host`.
 *
 * @param {HTMLElement} host
 * @param {Uint8Array<ArrayBuffer>} bytes The payload of cudalens/views/memory/map_payload.py.
 * @param {{ theme: ThemeName }} options
 * @returns {Promise<MemoryMapView>}
 */
export async function createMemoryMap(host, bytes, { theme }) {
  const map = createMap(await decodeMemory(bytes), theme);
  const { data, parts, curve, pool, flame } = map;
  host.replaceChildren(...parts.all);
  setDevice(map, map.device);
  if (map.peak) setMoment(map, map.peak.row, null);
  cancelAnimationFrame(map.pending);
  updateMoment(map);
  return {
    data,
    get moment() {
      return map.moment;
    },
    get chosen() {
      return map.chosen;
    },
    get since() {
      return map.since;
    },
    pool,
    curve,
    flame,
    showMoment: (row, since = null) => setMoment(map, row, since),
    showStretch: (range, origin) => showStretch(map, range, origin),
    showDevice: (device) => setDevice(map, device),
    setColor: (mode) => setColorMode(map, mode),
    setTheme(name) {
      map.theme = name;
      curve.setTheme(name);
      showBands(map);
      legend(map, pool.setTheme(name));
      flame.setTheme(name);
    },
    resize() {
      for (const view of [curve, pool, flame]) view.resize();
    },
    destroy() {
      cancelAnimationFrame(map.pending);
      clearTimeout(map.settling);
      for (const view of [curve, pool, flame]) view.destroy();
      host.replaceChildren();
    },
  };
}

/**
 * @param {MemoryData} data
 * @param {ThemeName} theme
 * @returns {MemoryMap}
 */
function createMap(data, theme) {
  const color = initialColorMode(data);
  const device = largestDevice(data);
  const moment = momentAt(data, device, data.numRows - 1);
  /** @type {MapState} */
  const state = {
    data,
    device,
    row: data.numRows - 1,
    since: null,
    moment,
    counted: moment.allocations,
    peak: null,
    by: color,
    picked: null,
    color,
    theme,
    chosen: null,
    isInNode: null,
    isSettled: false,
    pending: 0,
    settling: undefined,
  };
  const parts = buildParts(state, {
    onDevice: (k) => setDevice(map, k),
    onAxis: (isTime) => map.curve.setAxis(isTime),
    onPeak: () => map.peak && setMoment(map, map.peak.row, null),
    onEnd: () => setMoment(map, data.numRows - 1, null),
    onZoom: (factor) => map.pool.zoomBy(factor),
    onFit: () => map.pool.fit(),
    onColor: (mode) => setColorMode(map, mode),
    onGrouping: (by) => setGrouping(map, by),
  });
  /** @type {MemoryMap} */
  const map = Object.assign(state, {
    parts,
    curve: createCurve(parts.curve, data, { theme, onMoment: (row, since) => setMoment(map, row, since) }),
    pool: createPoolMap(parts.map, data, {
      theme,
      color,
      describe: (hit) => describeHit(data, map.moment, hit),
      onChoose: (hit) => showChosen(map, hit),
    }),
    flame: createFlameGraph(parts.flame, data, {
      theme,
      onZoom(isInNode) {
        map.isInNode = isInNode;
        updateDimming(map);
      },
    }),
  });
  return map;
}

/** @param {MemoryData} data */
function largestDevice({ header }) {
  const { devices } = header;
  return devices.reduce((best, one, k) => (one.reserved_bytes > devices[best].reserved_bytes ? k : best), 0);
}

/**
 * By category where any is known, else by call stack.
 *
 * @param {MemoryData} data
 * @returns {"category" | "stack"}
 */
function initialColorMode({ allocations, stacks }) {
  return allocations.category.some((code) => code > 0) || !stacks.n ? "category" : "stack";
}

/**
 * @param {MemoryMap} map
 * @param {number} device
 */
function setDevice(map, device) {
  const { data } = map;
  map.device = device;
  map.parts.devices.mark(String(device));
  map.picked = null;
  if (data.numRows) {
    const curves = curvesOf(data, device);
    const row = peakRowOf(curves.allocated);
    map.peak = { row, bytes: curves.allocated[row + 1] };
    const { index } = data.header.devices[device];
    const marks = data.header.marks.filter((mark) => mark.device === null || mark.device === index);
    map.curve.show(curves, map.peak, marks);
    showBands(map);
  }
  setMoment(map, map.row, map.since);
}

/**
 * Moves the cursor at once, and updates the rest with the next frame.
 *
 * @param {MemoryMap} map
 * @param {number} row
 * @param {number | null} since
 */
function setMoment(map, row, since) {
  map.row = row;
  map.since = since;
  if (map.data.numRows) map.curve.setMoment(row, since);
  cancelAnimationFrame(map.pending);
  map.pending = requestAnimationFrame(() => updateMoment(map));
}

/**
 * @param {MemoryMap} map
 * @param {[number, number]} range ns from `origin`.
 * @param {string} origin
 */
function showStretch(map, [from, to], origin) {
  const { clock, header } = map.data;
  if (!clock) return;
  const shift = Number(BigInt(origin) - BigInt(header.t0));
  const [since, row] = [rowAtTime(clock, from + shift), rowAtTime(clock, to + shift)];
  setMoment(map, row, since === row ? null : since);
}

/** @param {MemoryMap} map */
function updateMoment(map) {
  const { data, row, since, parts, chosen } = map;
  const { alloc } = data.allocations;
  map.moment = momentAt(data, map.device, row);
  map.counted = map.moment.allocations.filter((allocation) => since === null || alloc[allocation] > since);
  parts.moment.replaceChildren(...momentSummary(map));
  renderFragmentation(parts.bar, map.moment);
  legend(map, map.pool.show(map.moment));
  updateDimming(map);
  // Tables and call stacks wait until the moment stays: they are too slow for every frame of a drag.
  clearTimeout(map.settling);
  map.settling = setTimeout(() => updateSettled(map), map.isSettled ? SETTLE_MS : 0);
  if (chosen) map.pool.choose(hitOfAllocation(map, chosen.allocation));
}

/** @param {MemoryMap} map */
function updateSettled(map) {
  map.isSettled = true;
  showHolders(map);
  map.flame.show(map.counted);
}

/**
 * @param {MemoryMap} map
 * @param {number} allocation
 * @returns {Hit | null}
 */
function hitOfAllocation({ data, moment }, allocation) {
  const { addr, bytes } = data.allocations;
  const k = allocation < 0 ? -1 : moment.allocations.indexOf(allocation);
  const strip = moment.strips.findIndex(({ first, end }) => first <= k && k < end);
  return strip < 0 ? null : { strip, allocation, from: addr[allocation], bytes: bytes[allocation] };
}

/** @param {MemoryMap} map */
function momentSummary({ data, row, since, moment, counted, peak }) {
  const { sums } = moment;
  const when = whenText(data, row, peak);
  const blocks = formatPlural(moment.allocations.length, "block");
  const segments = formatPlural(moment.strips.length, "segment");
  const held = `${formatBytes(sums.allocated)} allocated in ${blocks}, ${formatBytes(sums.reserved)} reserved in ${segments}`;
  const pending = sums.pending ? `, ${formatBytes(sums.pending)} freed and waiting for a stream` : "";
  const outside = moment.outside ? `; ${formatPlural(moment.outside, "block")} outside of the recorded segments` : "";
  const made = since === null ? "" : madeText(data, counted, since);
  const before = row === data.numRows - 1 ? beforeText(data, moment) : "";
  return [element("strong", {}, `${when}: `), `${held}${pending}${outside}${before}.${made}`];
}

/**
 * How much of the moment's memory was allocated before the recording began; "" where none was.
 *
 * @param {MemoryData} data
 * @param {Moment} moment
 */
function beforeText({ allocations: { alloc, bytes } }, moment) {
  let sum = 0;
  for (const allocation of moment.allocations) if (alloc[allocation] < 0) sum += bytes[allocation];
  return sum ? `; ${formatBytes(sum)} was allocated before recording` : "";
}

/**
 * @param {MemoryData} data
 * @param {number} row
 * @param {Peak | null} peak
 */
function whenText(data, row, peak) {
  if (row === peak?.row) return `At the peak (${momentText(data, row)})`;
  if (row === data.numRows - 1) return "At the end";
  return row < 0 ? "Before the first action" : `After ${momentText(data, row)}`;
}

/**
 * @param {MemoryData} data
 * @param {Int32Array} counted
 * @param {number} since
 */
function madeText(data, counted, since) {
  const bytes = counted.reduce((sum, allocation) => sum + data.allocations.bytes[allocation], 0);
  const blocks = formatPlural(counted.length, "block");
  return ` ${formatBytes(bytes)} of it in ${blocks} came since ${momentText(data, since)} and stayed; the rest is pale.`;
}

/** @param {MemoryMap} map */
function showHolders(map) {
  renderHolders(map.parts.holders, map.data, map.counted, {
    by: map.by,
    picked: map.picked,
    onPick(key) {
      map.picked = key;
      showHolders(map);
      updateDimming(map);
    },
  });
}

/**
 * Dims what is older than the chosen stretch, outside of the picked group, or outside of the flame graph's node.
 *
 * @param {MemoryMap} map
 */
function updateDimming({ data, pool, since, picked, by, isInNode }) {
  if (since === null && picked === null && !isInNode) {
    pool.setDim(null);
    return;
  }
  const { alloc, stack } = data.allocations;
  pool.setDim(
    (allocation) =>
      (since !== null && alloc[allocation] <= since) ||
      (picked !== null && groupKey(data, allocation, by) !== picked) ||
      (isInNode !== null && !isInNode(stack[allocation])),
  );
}

/**
 * @param {MemoryMap} map
 * @param {Grouping} by
 */
function setGrouping(map, by) {
  map.by = by;
  map.picked = null;
  showHolders(map);
  updateDimming(map);
}

/**
 * @param {MemoryMap} map
 * @param {ColorMode} mode
 */
function setColorMode(map, mode) {
  map.color = mode;
  map.parts.colors.mark(mode);
  legend(map, map.pool.setColor(mode));
  showBands(map);
}

/**
 * Shows in the curve what the memory is for, in the colours of the map.
 *
 * @param {MemoryMap} map
 */
function showBands({ data, device, color, theme, curve }) {
  if (data.numRows) curve.setBands(bandsOf(data, device, color, theme));
}

/**
 * @param {MemoryMap} map
 * @param {Legend} entries
 */
function legend({ parts, moment }, entries) {
  showLegend(parts.legend, entries, moment.sums.pending > 0);
}

/**
 * @param {MemoryMap} map
 * @param {Hit | null} hit
 */
function showChosen(map, hit) {
  const { details } = map.parts;
  map.chosen = hit;
  const wasHidden = details.hidden;
  renderBlockDetails(details, map.data, map.moment, hit);
  if (wasHidden !== details.hidden) map.pool.resize();
}
