// Read the binary payload of events that cudalens/views/timeline/payload.py packs.
// Everything in it is data: texts are strings for fillText and textContent, never markup.

import { openPayload, readInts, readTexts } from "./codec.js";
import { readDetails, readMemory, readMetrics } from "./columns.js";
import { deriveTree, unfoldLaunches, unfoldTimes } from "./derive.js";
import { createRows } from "./rows.js";

/** @import { BaseHeader, Ints, Payload } from "./codec.js" */

/**
 * A stream or a thread. The first `enclosing` events of a thread are frames around all of its work; an idle one waits.
 *
 * @typedef {{ kind: "device" | "host", label: string, count: number, enclosing: number, is_idle: boolean }} Lane
 */
/** @typedef {{ race: number, title: string, at: number, lane: number, dur: number }} RaceMark */
/** @typedef {{ group: number, at: number, lane: number, dur: number }} SyncMark */
/** @typedef {{ column: string, title: string, unit: string, full: number | null, scale: number }} Gauge */
/** @typedef {{ name: string, coding: string }} DetailColumn */

/**
 * What cudalens/views/timeline/payload.py writes besides the columns.
 *
 * @typedef {BaseHeader & {
 *   n: number,
 *   t0: string,
 *   first_row: number,
 *   begin: number,
 *   num_all: number,
 *   lanes: Lane[],
 *   cats: string[],
 *   step_names: number[],
 *   short: { [name: number]: string },
 *   are_names_cut: boolean,
 *   races: RaceMark[],
 *   syncs: SyncMark[],
 *   memory: { devices: string[], actions: string[], n: number, num_actions: number },
 *   metrics: { devices: string[], gauges: Gauge[], reasons: string[] },
 *   cells: { [cell: string]: string },
 *   details: DetailColumn[],
 *   dropped: string[],
 * }} TraceHeader
 */

/**
 * Actions of the allocator of one device. NaN: not recorded.
 *
 * @typedef {object} MemorySeries
 * @property {string} label
 * @property {string[]} actions
 * @property {Float64Array} ts ns from the header's t0.
 * @property {Float64Array} bytes
 * @property {Float64Array} allocated Bytes.
 * @property {Float64Array} reserved Bytes.
 * @property {Float64Array} action Index into `actions`.
 * @property {Float64Array} event Index of the event that made it, -1 for none.
 */

/**
 * Readings of one GPU.
 *
 * @typedef {object} DeviceReadings
 * @property {string} label
 * @property {Float64Array} ts ns from the header's t0.
 * @property {Ints} slowed Index into `reasons`; 0 for none.
 * @property {string[]} reasons
 * @property {{ [column: string]: Float64Array }} values By the gauge's column; NaN where not known.
 */

/**
 * n events lane by lane, in each lane by (start, longest first).
 *
 * @typedef {object} TraceData
 * @property {TraceHeader & { names: string[] }} header t0 is text (it may need 64 bits).
 * @property {number} n
 * @property {Float64Array} start Whole ns from header.t0.
 * @property {Float64Array} dur Whole ns.
 * @property {Float64Array} self Whole ns.
 * @property {Uint32Array} name Index into header.names.
 * @property {Uint8Array | Uint16Array} cat Index into header.cats.
 * @property {Uint16Array | Uint32Array} lane Index into header.lanes.
 * @property {Int32Array} parent Index of the parent in the host's call tree, -1 for none.
 * @property {Uint16Array} depth Number of ancestors.
 * @property {Uint8Array} flags EVENT_FLAGS.
 * @property {Int32Array} launch Index of the call that launched it, -1 for none.
 * @property {(event: number) => number} rowOf Row in trace.events of an event.
 * @property {(row: number) => number} eventOf Event of a row of trace.events, -1 where there is none.
 * @property {MemorySeries[]} memory
 * @property {DeviceReadings[]} metrics
 * @property {(event: number) => { [column: string]: string | number | null }} detail Empty until detailsReady.
 * @property {(name: string) => (event: number) => string | number | null} detailOf One of the columns of `detail`.
 * @property {Promise<void>} detailsReady Resolves after the first paint.
 */

/**
 * The short name of a name: what differs from the other names comes first.
 *
 * @param {Pick<TraceData["header"], "names" | "short">} header
 * @param {number} id
 */
export function shortName(header, id) {
  return header.short[id] ?? header.names[id];
}

/**
 * Decodes a payload.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes What pack() made.
 * @returns {Promise<TraceData>}
 */
export async function decodePayload(bytes) {
  /** @type {Payload<TraceHeader>} */
  const payload = await openPayload(bytes);
  const [columns, names] = await Promise.all([readColumns(payload), readTexts(payload, "names")]);
  const header = { ...payload.header, names };
  const { n, lanes } = header;
  const flags = Uint8Array.from(columns.flags);
  const times = { header, n, flags, ...unfoldTimes(lanes, n, columns.closed, columns.gap, columns.tail) };
  const { own, parent, depth } = deriveTree(times);
  addAt(own, columns.self_at, columns.self_off);
  const memory = await readMemory(payload);
  const metrics = await readMetrics(payload);
  /** @type {Map<string, (event: number) => string | number | null>} */
  const details = new Map();
  const detailsReady = new Promise((resolve) => setTimeout(resolve, 0)).then(() => readDetails(payload, details));
  // A caller that needs the details awaits detailsReady and gets the failure; the timeline does without.
  detailsReady.catch(() => {});
  return {
    ...times,
    ...unfoldKinds(header, columns),
    lane: unfoldLanes(lanes, n),
    self: own,
    parent,
    depth,
    launch: unfoldLaunches(n, flags, columns.kind, columns.launchers, columns.launch),
    ...createRows(times, columns.row_at, columns.row_off),
    memory,
    metrics,
    detail: (i) => Object.fromEntries([...details].map(([name, at]) => [name, at(i)])),
    detailOf: (name) => details.get(name) ?? (() => null),
    detailsReady,
  };
}

const COLUMNS = /** @type {const} */ ([
  "closed",
  "gap",
  "tail",
  "kind",
  "kind_name",
  "kind_cat",
  "flags",
  "launch",
  "launchers",
  "self_at",
  "self_off",
  "row_at",
  "row_off",
]);

/** @typedef {{ [name in typeof COLUMNS[number]]: Ints }} EventColumns */

/**
 * @param {Payload<TraceHeader>} payload
 * @returns {Promise<EventColumns>}
 */
async function readColumns(payload) {
  const columns = await Promise.all(COLUMNS.map((name) => readInts(payload, name)));
  return /** @type {EventColumns} */ (Object.fromEntries(COLUMNS.map((name, k) => [name, columns[k]])));
}

/**
 * Name and category of every event, which are sent as one number, its kind.
 *
 * @param {TraceHeader} header
 * @param {EventColumns} columns
 */
function unfoldKinds({ n, cats }, { kind, kind_name, kind_cat }) {
  const name = new Uint32Array(n);
  const cat = cats.length > 256 ? new Uint16Array(n) : new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    name[i] = kind_name[kind[i]];
    cat[i] = kind_cat[kind[i]];
  }
  return { name, cat };
}

/**
 * @param {Lane[]} lanes
 * @param {number} n
 */
function unfoldLanes(lanes, n) {
  const lane = lanes.length > 65536 ? new Uint32Array(n) : new Uint16Array(n);
  let from = 0;
  lanes.forEach(({ count }, l) => {
    lane.fill(l, from, from + count);
    from += count;
  });
  return lane;
}

/**
 * Adds `off` to the values at the places that `at` counts out.
 *
 * @param {Float64Array} values
 * @param {Ints} at
 * @param {Ints} off
 */
function addAt(values, at, off) {
  let place = 0;
  for (let k = 0; k < at.length; k++) {
    place += at[k];
    values[place] += off[k];
  }
}
