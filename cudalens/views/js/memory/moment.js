// What a device held at one moment: blocks and segments by address, gaps, and sums of them.

/** @import { Allocations, MemoryData, Pieces } from "./data.js" */

/**
 * A stretch of reserved memory.
 *
 * @typedef {object} Strip
 * @property {number} addr From header.base.
 * @property {number} bytes
 * @property {number} pool Index into header.pools.
 * @property {number} kind 1 small, 2 large, 0 not known.
 * @property {number} grows 1 for expandable segments.
 * @property {number} first Of the moment's allocations inside.
 * @property {number} end
 * @property {number} used Bytes.
 */

/**
 * Bytes of a moment: `internal` is rounding, `external` free in segments in use, `empty` in the others, `largest` the
 * largest free stretch, `pending` freed and waiting for a stream.
 *
 * @typedef {object} Sums
 * @property {number} reserved
 * @property {number} active
 * @property {number} allocated
 * @property {number} pending
 * @property {number} internal
 * @property {number} external
 * @property {number} empty
 * @property {number} largest
 */

/**
 * @typedef {object} Moment
 * @property {number} device Index into header.devices.
 * @property {number} row
 * @property {Int32Array} allocations Indices of what was active, by address.
 * @property {Strip[]} strips By address.
 * @property {Sums} sums
 * @property {number} outside Allocations in no strip.
 */

/**
 * What `device` held after `row`.
 *
 * @param {MemoryData} data
 * @param {number} device
 * @param {number} row
 * @returns {Moment}
 */
export function momentAt(data, device, row) {
  const { allocations } = data;
  const alive = allocationsAt(allocations, device, row);
  const strips = stripsAt(data.pieces, device, row);
  const sums = sumsOfStrips(allocations, alive, strips);
  addAllocations(sums, allocations, alive, row);
  if (row === data.numRows - 1) useSnapshot(sums, data, device);
  const placed = strips.reduce((number, { first, end }) => number + end - first, 0);
  return { device, row, allocations: alive, strips, sums, outside: alive.length - placed };
}

/**
 * The strips of memory that the allocator had at `row`, by address; neighbours of one expandable segment are one strip.
 *
 * @param {Pieces} pieces
 * @param {number} device
 * @param {number} row
 */
function stripsAt(pieces, device, row) {
  /** @type {Strip[]} */
  const strips = [];
  for (let i = 0; i < pieces.n; i++) {
    if (pieces.device[i] !== device || pieces.added[i] > row || pieces.removed[i] <= row) continue;
    const [addr, bytes, pool, kind] = [pieces.addr[i], pieces.bytes[i], pieces.pool[i], pieces.kind[i]];
    const last = strips.at(-1);
    const isNext = last && last.pool === pool && last.addr + last.bytes === addr;
    if (isNext && pieces.grows[i] && last.grows) last.bytes += bytes;
    else strips.push({ addr, bytes, pool, kind, grows: pieces.grows[i], first: 0, end: 0, used: 0 });
  }
  return strips;
}

/**
 * @param {Allocations} allocations
 * @param {number} device
 * @param {number} row
 */
function allocationsAt(allocations, device, row) {
  const found = new Int32Array(allocations.n);
  let n = 0;
  for (let k = 0; k < allocations.n; k++) {
    const i = allocations.byAddress[k];
    if (allocations.alloc[i] <= row && row < allocations.done[i] && allocations.device[i] === device) found[n++] = i;
  }
  return found.slice(0, n);
}

/**
 * Finds the allocations of each strip, and sums its bytes.
 *
 * @param {Allocations} allocations
 * @param {Int32Array} alive
 * @param {Strip[]} strips
 * @returns {Sums}
 */
function sumsOfStrips(allocations, alive, strips) {
  const sums = { reserved: 0, active: 0, allocated: 0, pending: 0, internal: 0, external: 0, empty: 0, largest: 0 };
  let k = 0;
  for (const strip of strips) {
    const limit = strip.addr + strip.bytes;
    while (k < alive.length && allocations.addr[alive[k]] < strip.addr) k++;
    strip.first = k;
    let at = strip.addr;
    let largest = 0;
    for (; k < alive.length && allocations.addr[alive[k]] < limit; k++) {
      const i = alive[k];
      largest = Math.max(largest, allocations.addr[i] - at);
      at = allocations.addr[i] + allocations.bytes[i];
      strip.used += allocations.bytes[i];
    }
    strip.end = k;
    sums.reserved += strip.bytes;
    sums.largest = Math.max(sums.largest, largest, limit - at);
    sums[strip.used ? "external" : "empty"] += Math.max(strip.bytes - strip.used, 0);
  }
  return sums;
}

/**
 * @param {Sums} sums
 * @param {Allocations} allocations
 * @param {Int32Array} alive
 * @param {number} row
 */
function addAllocations(sums, { bytes, released, requested }, alive, row) {
  for (const i of alive) {
    sums.active += bytes[i];
    if (released[i] <= row) sums.pending += bytes[i];
    else sums.allocated += bytes[i];
    if (!Number.isNaN(requested[i])) sums.internal += bytes[i] - requested[i];
  }
}

/**
 * Takes the sums at the end from the snapshot, which also counts blocks without an address.
 *
 * @param {Sums} sums
 * @param {MemoryData} data
 * @param {number} device
 */
function useSnapshot(sums, { header }, device) {
  const { end, allocated_bytes, active_bytes, reserved_bytes } = header.devices[device];
  Object.assign(sums, end ?? {}, { allocated: allocated_bytes, active: active_bytes, reserved: reserved_bytes });
  sums.pending = sums.active - sums.allocated;
}
