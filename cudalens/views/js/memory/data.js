// Reads the payload of cudalens/views/memory/map_payload.py: allocations ("lives") with the rows of the history between
// which they were there, stretches of reserved memory ("pieces"), call stacks, the clock. A moment is a row: what is
// there after it. Row -1 is before the first.

import { openPayload, readInts, readTexts } from "../payload/payload.js";

export const MM_NEVER = 0x7fffffff;

async function mmColumns(payload, prefix, names) {
  const columns = await Promise.all(names.map((name) => readInts(payload, `${prefix}.${name}`)));
  return Object.fromEntries(names.map((name, k) => [name, columns[k]]));
}

function mmRunning(steps, from = 0) {
  const out = new Float64Array(steps.length);
  let sum = from;
  for (let i = 0; i < steps.length; i++) out[i] = sum += steps[i];
  return out;
}

function mmLives(raw, addresses, header) {
  const n = raw.addr.length;
  const lives = { n, device: raw.device, pool: raw.pool, category: raw.category, told: raw.told };
  lives.addr = new Float64Array(n);
  lives.bytes = new Float64Array(n);
  lives.requested = new Float64Array(n);
  for (const name of ["alloc", "released", "done", "stack", "block"]) lives[name] = new Int32Array(n);
  let [begin, block] = [0, -1];
  for (let i = 0; i < n; i++) {
    begin += raw.alloc[i];
    block += raw.block[i];
    const at = begin - 1;
    lives.addr[i] = addresses[raw.addr[i]];
    lives.bytes[i] = raw.units[i] * header.unit;
    lives.requested[i] = raw.is_asked[i] ? lives.bytes[i] - raw.spare[i] : NaN;
    lives.alloc[i] = at;
    lives.released[i] = raw.released[i] ? at + raw.released[i] - 1 : MM_NEVER;
    const since = raw.released[i] ? lives.released[i] : at;
    lives.done[i] = raw.done[i] ? since + raw.done[i] - 1 : MM_NEVER;
    lives.stack[i] = raw.stack[i] - 1;
    lives.block[i] = block;
  }
  // Several allocations share an address, one after the other; the sort keeps their order.
  lives.byAddress = mmSortedByPlace(raw.addr, addresses.length);
  return lives;
}

// Indices of `place` (whole numbers below `num`) in ascending order, equal ones in theirs: counted, not compared.
function mmSortedByPlace(place, num) {
  const next = new Uint32Array(num + 1);
  for (let i = 0; i < place.length; i++) next[place[i] + 1]++;
  for (let k = 0; k < num; k++) next[k + 1] += next[k];
  const order = new Int32Array(place.length);
  for (let i = 0; i < place.length; i++) order[next[place[i]]++] = i;
  return order;
}

function mmPieces(raw, header) {
  const addr = mmRunning(raw.addr);
  const bytes = Float64Array.from(raw.units, (units) => units * header.piece_unit);
  const added = Int32Array.from(raw.added, (row) => row - 1);
  const removed = Int32Array.from(raw.removed, (row) => (row ? row - 2 : MM_NEVER));
  return { n: addr.length, addr, bytes, added, removed, device: raw.device, pool: raw.pool, kind: raw.kind, grows: raw.grows };
}

function mmStacks(frame, stack, files, functions) {
  const starts = new Uint32Array(stack.sizes.length + 1);
  stack.sizes.forEach((size, k) => (starts[k + 1] = starts[k] + size));
  const frameAt = (id) => ({ file: files[frame.file[id]], line: frame.line[id] - 1, name: functions[frame.function[id]] });
  return {
    n: stack.sizes.length,
    numFrames: frame.line.length,
    frameAt,
    // Ids of the frames of stack k, innermost first.
    idsOf: (k) => stack.frames.subarray(starts[k], starts[k + 1]),
  };
}

export function mmFrameText({ file, line, name }) {
  const place = file ? `${file.split(/[\\/]/).at(-1)}${line >= 0 ? `:${line}` : ""}` : "";
  return [name || "?", place].filter(Boolean).join(" ");
}

/**
 * Decodes a payload of memory.
 *
 * @param {Uint8Array} bytes What pack() of memory_map_payload made.
 * @returns {Promise<object>} {header, numRows, lives, pieces, stacks, told, clock (ns from the first action, or null),
 *   rest}; the columns of lives and pieces are typed arrays, their addresses count from header.base.
 */
export async function decodeMemory(bytes) {
  const payload = await openPayload(bytes);
  const { header } = payload;
  const [life, piece, frame, stack, rest, steps, clock, told, files, functions] = await Promise.all([
    mmColumns(payload, "life", ["addr", "device", "pool", "units", "is_asked", "spare", "alloc", "released", "done", "stack",
      "category", "block", "told"]),
    mmColumns(payload, "piece", ["addr", "device", "pool", "units", "added", "removed", "kind", "grows"]),
    mmColumns(payload, "frame", ["file", "line", "function"]),
    mmColumns(payload, "stack", ["sizes", "frames"]),
    mmColumns(payload, "rest", ["allocated", "active"]),
    readInts(payload, "addr.steps"),
    readInts(payload, "clock.steps"),
    readTexts(payload, "told"),
    readTexts(payload, "files"),
    readTexts(payload, "functions"),
  ]);
  const times = header.has_times ? new Float64Array(header.num_rows) : null;
  if (times) for (let i = 1; i < times.length; i++) times[i] = times[i - 1] + clock[i - 1] * header.time_unit;
  return {
    header,
    numRows: header.num_rows,
    lives: mmLives(life, mmRunning(steps), header),
    pieces: mmPieces(piece, header),
    stacks: mmStacks(frame, stack, files, functions),
    told: told.map((text) => (text ? JSON.parse(text) : {})),
    clock: times,
    rest,
  };
}

// What a device held before the first action and after each: {allocated, active, reserved}, numRows + 1 values each,
// counted backward from its end.
export function mmCurves(data, device) {
  const { lives, pieces, numRows, header } = data;
  const curves = {};
  for (const name of ["allocated", "active", "reserved"]) curves[name] = new Float64Array(numRows + 1);
  const add = (curve, row, bytes) => {
    if (row >= 0 && row < numRows) curve[row + 1] += bytes;
  };
  for (let i = 0; i < lives.n; i++) {
    if (lives.device[i] !== device) continue;
    const bytes = lives.bytes[i];
    add(curves.active, lives.alloc[i], bytes);
    add(curves.active, lives.done[i], -bytes);
    add(curves.allocated, lives.alloc[i], bytes);
    add(curves.allocated, lives.released[i], -bytes);
  }
  for (let i = 0; i < pieces.n; i++) {
    if (pieces.device[i] !== device) continue;
    add(curves.reserved, pieces.added[i], pieces.bytes[i]);
    add(curves.reserved, pieces.removed[i], -pieces.bytes[i]);
  }
  const { stretch } = header.hidden;
  const numSteps = data.rest.active.length / Math.max(header.devices.length, 1);
  for (const name of ["allocated", "active"]) {
    for (let k = 0; k < numSteps; k++) {
      add(curves[name], Math.min((k + 1) * stretch, numRows) - 1, data.rest[name][device * numSteps + k]);
    }
  }
  for (const [name, curve] of Object.entries(curves)) {
    let sum = 0;
    for (let i = 0; i <= numRows; i++) sum += curve[i];
    let held = header.devices[device][`${name}_bytes`] - sum;
    for (let i = 0; i <= numRows; i++) curve[i] = held += curve[i];
  }
  return curves;
}

// The row after which a curve was highest first.
export function mmPeakRow(curve) {
  let best = 0;
  for (let i = 1; i < curve.length; i++) if (curve[i] > curve[best]) best = i;
  return best - 1;
}
