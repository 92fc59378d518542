// Read the payload of cudalens/views/memory/map_payload.py: allocations with the rows of the history between which they
// exist, stretches of reserved memory ("pieces"), call stacks, the clock. A moment is a row: the state after it. Row -1
// is before the first.

import { openPayload, readInts, readTexts } from "../payload/codec.js";

/** @import { BaseHeader, Ints, Payload } from "../payload/codec.js" */

/**
 * A device at the end of the history.
 *
 * @typedef {object} MemoryDevice
 * @property {number} index
 * @property {string} label
 * @property {number} allocated_bytes
 * @property {number} active_bytes
 * @property {number} reserved_bytes
 * @property {{ internal: number, external: number, empty: number, largest: number } | null} end Bytes that are free.
 */

/** @typedef {{ device: number | null, stream: number | null, pool: (number | null)[], graphs: string[] }} Pool */
/** @typedef {{ row: number, kind: string, device: number | null }} HistoryMark A failed allocation or a snapshot. */

/**
 * @typedef {BaseHeader & {
 *   num_rows: number,
 *   devices: MemoryDevice[],
 *   pools: Pool[],
 *   base: string,
 *   categories: string[],
 *   unit: number,
 *   piece_unit: number,
 *   has_times: boolean,
 *   t0: string,
 *   time_unit: number,
 *   marks: HistoryMark[],
 *   hidden: { num: number, bytes: number, stretch: number },
 * }} MemoryHeader
 */

/**
 * Columns of the allocations, by when they were made. Rows are those of the history.
 *
 * @typedef {object} Allocations
 * @property {number} n
 * @property {Float64Array} addr From header.base.
 * @property {Float64Array} bytes
 * @property {Float64Array} requested Bytes; NaN where not recorded.
 * @property {Ints} device Index into header.devices.
 * @property {Ints} pool Index into header.pools.
 * @property {Ints} category Index into header.categories plus one; 0 where not known.
 * @property {Ints} facts Index into MemoryData.facts plus one; 0 where there are none.
 * @property {Int32Array} alloc Row that made it; -1 where that is before the history.
 * @property {Int32Array} released Row of the request to free it, or NEVER.
 * @property {Int32Array} done Row that freed it, or NEVER.
 * @property {Int32Array} stack Index into the stacks, -1 where not recorded.
 * @property {Int32Array} block
 * @property {Int32Array} byAddress Indices by address.
 */

/**
 * Columns of the stretches of reserved memory, by address.
 *
 * @typedef {object} Pieces
 * @property {number} n
 * @property {Float64Array} addr From header.base.
 * @property {Float64Array} bytes
 * @property {Int32Array} added Row; -1 before the history.
 * @property {Int32Array} removed Row, or NEVER.
 * @property {Ints} device Index into header.devices.
 * @property {Ints} pool Index into header.pools.
 * @property {Ints} kind 1 small, 2 large, 0 not known.
 * @property {Ints} grows 1 for expandable segments.
 */

/** @typedef {{ file: string, line: number, name: string }} StackFrame The line is -1 where not known. */

/**
 * @typedef {object} Stacks
 * @property {number} n
 * @property {number} numFrames
 * @property {(id: number) => StackFrame} frameAt
 * @property {(stack: number) => Ints} idsOf Ids of the frames of a stack, innermost first.
 */

/**
 * What is known of a block at the end.
 *
 * @typedef {{ names?: string, num_tensors?: number, cell?: string, graph?: string, user_metadata?: string }} BlockFacts
 */

/**
 * @typedef {object} MemoryData
 * @property {MemoryHeader} header
 * @property {number} numRows
 * @property {Allocations} allocations
 * @property {Pieces} pieces
 * @property {Stacks} stacks
 * @property {BlockFacts[]} facts
 * @property {Float64Array | null} clock Time of each row, ns from the first.
 * @property {{ allocated: Ints, active: Ints }} rest Sums of the allocations that were not sent.
 */

/**
 * Bytes of a device before the first action and after each.
 *
 * @typedef {{ allocated: Float64Array, active: Float64Array, reserved: Float64Array }} Curves
 */

export const NEVER = 0x7fffffff;

/**
 * @template {string} Name
 * @param {Payload} payload
 * @param {string} prefix
 * @param {readonly Name[]} names
 * @returns {Promise<{ [name in Name]: Ints }>}
 */
async function readColumns(payload, prefix, names) {
  const columns = await Promise.all(names.map((name) => readInts(payload, `${prefix}.${name}`)));
  return /** @type {{ [name in Name]: Ints }} */ (Object.fromEntries(names.map((name, k) => [name, columns[k]])));
}

/** @param {Ints} steps */
function runningSums(steps) {
  const out = new Float64Array(steps.length);
  let sum = 0;
  for (let i = 0; i < steps.length; i++) {
    sum += steps[i];
    out[i] = sum;
  }
  return out;
}

const ALLOCATION_COLUMNS = /** @type {const} */ ([
  "addr",
  "device",
  "pool",
  "units",
  "is_asked",
  "spare",
  "alloc",
  "released",
  "done",
  "stack",
  "category",
  "block",
  "facts",
]);

/**
 * @param {Payload} payload
 * @param {MemoryHeader} header
 * @returns {Promise<Allocations>}
 */
async function readAllocations(payload, header) {
  const [raw, steps] = await Promise.all([
    readColumns(payload, "allocation", ALLOCATION_COLUMNS),
    readInts(payload, "addr.steps"),
  ]);
  const addresses = runningSums(steps);
  const n = raw.addr.length;
  const bytes = Float64Array.from(raw.units, (units) => units * header.unit);
  const alloc = Int32Array.from(runningSums(raw.alloc), (row) => row - 1);
  const released = alloc.map((row, i) => (raw.released[i] ? row + raw.released[i] - 1 : NEVER));
  const done = alloc.map((row, i) => (raw.done[i] ? (raw.released[i] ? released[i] : row) + raw.done[i] - 1 : NEVER));
  return {
    n,
    addr: Float64Array.from(raw.addr, (place) => addresses[place]),
    bytes,
    requested: bytes.map((size, i) => (raw.is_asked[i] ? size - raw.spare[i] : Number.NaN)),
    device: raw.device,
    pool: raw.pool,
    category: raw.category,
    facts: raw.facts,
    alloc,
    released,
    done,
    stack: Int32Array.from(raw.stack, (stack) => stack - 1),
    block: Int32Array.from(runningSums(raw.block), (block) => block - 1),
    // Several allocations share an address, one after the other; the sort keeps their order.
    byAddress: sortedByPlace(raw.addr, addresses.length),
  };
}

/**
 * Indices of `place` (whole numbers below `num`) in ascending order, equal ones in their order: a counting sort.
 *
 * @param {Ints} place
 * @param {number} num
 */
function sortedByPlace(place, num) {
  const next = new Uint32Array(num + 1);
  for (let i = 0; i < place.length; i++) next[place[i] + 1]++;
  for (let k = 0; k < num; k++) next[k + 1] += next[k];
  const order = new Int32Array(place.length);
  for (let i = 0; i < place.length; i++) order[next[place[i]]++] = i;
  return order;
}

const PIECE_COLUMNS = /** @type {const} */ (["addr", "device", "pool", "units", "added", "removed", "kind", "grows"]);

/**
 * @param {Payload} payload
 * @param {MemoryHeader} header
 * @returns {Promise<Pieces>}
 */
async function readPieces(payload, header) {
  const { addr, units, added, removed, device, pool, kind, grows } = await readColumns(payload, "piece", PIECE_COLUMNS);
  return {
    n: addr.length,
    addr: runningSums(addr),
    bytes: Float64Array.from(units, (number) => number * header.piece_unit),
    added: Int32Array.from(added, (row) => row - 1),
    removed: Int32Array.from(removed, (row) => (row ? row - 2 : NEVER)),
    device,
    pool,
    kind,
    grows,
  };
}

/**
 * @param {Payload} payload
 * @returns {Promise<Stacks>}
 */
async function readStacks(payload) {
  const [frame, stack, files, functions] = await Promise.all([
    readColumns(payload, "frame", /** @type {const} */ (["file", "line", "function"])),
    readColumns(payload, "stack", /** @type {const} */ (["sizes", "frames"])),
    readTexts(payload, "files"),
    readTexts(payload, "functions"),
  ]);
  const ends = runningSums(stack.sizes);
  return {
    n: stack.sizes.length,
    numFrames: frame.line.length,
    frameAt: (id) => ({ file: files[frame.file[id]], line: frame.line[id] - 1, name: functions[frame.function[id]] }),
    idsOf: (k) => stack.frames.subarray(ends[k] - stack.sizes[k], ends[k]),
  };
}

/**
 * @param {Payload} payload
 * @param {MemoryHeader} header
 */
async function readClock(payload, header) {
  const steps = await readInts(payload, "clock.steps");
  if (!header.has_times) return null;
  const times = new Float64Array(header.num_rows);
  for (let i = 1; i < times.length; i++) times[i] = times[i - 1] + steps[i - 1] * header.time_unit;
  return times;
}

/** @param {StackFrame} frame */
export function stackFrameText({ file, line, name }) {
  const place = file ? `${file.split(/[\\/]/).at(-1)}${line >= 0 ? `:${line}` : ""}` : "";
  return [name || "?", place].filter(Boolean).join(" ");
}

/**
 * Decodes a payload of memory.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<MemoryData>}
 */
export async function decodeMemory(bytes) {
  /** @type {Payload<MemoryHeader>} */
  const payload = await openPayload(bytes);
  const { header } = payload;
  const [allocations, pieces, stacks, rest, clock, facts] = await Promise.all([
    readAllocations(payload, header),
    readPieces(payload, header),
    readStacks(payload),
    readColumns(payload, "rest", /** @type {const} */ (["allocated", "active"])),
    readClock(payload, header),
    readTexts(payload, "facts"),
  ]);
  return {
    header,
    numRows: header.num_rows,
    allocations,
    pieces,
    stacks,
    facts: facts.map((text) => (text ? JSON.parse(text) : {})),
    clock,
    rest,
  };
}
