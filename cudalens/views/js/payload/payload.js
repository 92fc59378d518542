// Reads the binary payload that cudalens/views/timeline/payload.py packs. Layout: see cudalens/views/timeline/payload_codec.py.
// Everything in it is data: texts are strings for fillText and textContent, never markup.

const PAYLOAD_VERSION = 1;
// Bits of data.flags: no duration by nature; folded into its caller by averaging; in no call tree; launched by a call.
export const PAYLOAD_FLAGS = { instant: 1, folded: 2, outside: 4, launched: 8 };

// One stream through the browser's own inflater; resolves to the bytes.
async function inflateBytes(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function payloadError(what) {
  return new Error(`cudalens payload: ${what}. Save the trace again with the same version of cudalens.`);
}

// Header and the place of every blob.
export async function openPayload(bytes) {
  if (bytes.byteLength < 12 || String.fromCharCode(...bytes.subarray(0, 4)) !== "CLP1") {
    throw payloadError(`found ${bytes.byteLength} bytes that do not begin with CLP1`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isDeflated = view.getUint32(4, true) === 1;
  const read = (from, size) => {
    if (from + size > bytes.byteLength) throw payloadError(`it ends at byte ${bytes.byteLength}, ${from + size} expected`);
    const blob = bytes.subarray(from, from + size);
    return isDeflated ? inflateBytes(blob) : blob;
  };
  const headSize = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(await read(12, headSize)));
  if (header.version !== PAYLOAD_VERSION) throw payloadError(`found version ${header.version}, expected ${PAYLOAD_VERSION}`);
  let at = 12 + headSize;
  const places = new Map();
  for (const [name, column] of Object.entries(header.columns)) {
    const sizes = "text" in column ? [column.text] : column.planes;
    places.set(name, sizes.map((size) => (size < 0 ? size : [(at += size) - size, size])));
  }
  return { header, places, read };
}

// Column `name` as numbers: Int32Array or Uint32Array where it fits, else Float64Array.
export async function readInts(payload, name) {
  const { n, signed } = payload.header.columns[name];
  const planes = await Promise.all(payload.places.get(name).map((p) => (p < 0 ? -1 - p : payload.read(...p))));
  if (planes.length > 4 || (signed && planes.length === 4)) return wideInts(planes, n, signed);
  const out = new Uint32Array(n);
  planes.forEach((plane, k) => {
    if (typeof plane === "number") {
      if (plane) for (let i = 0; i < n; i++) out[i] |= plane << (8 * k);
    } else if (k === 0) for (let i = 0; i < n; i++) out[i] = plane[i];
    else for (let i = 0; i < n; i++) out[i] |= plane[i] << (8 * k);
  });
  if (!signed) return out;
  const back = new Int32Array(out.buffer);
  for (let i = 0; i < n; i++) back[i] = (out[i] >>> 1) ^ -(out[i] & 1);
  return back;
}

function wideInts(planes, n, signed) {
  const out = new Float64Array(n);
  const byteOf = (k, i) => (k >= planes.length ? 0 : typeof planes[k] === "number" ? planes[k] : planes[k][i]);
  for (let i = 0; i < n; i++) {
    const low = (byteOf(0, i) | (byteOf(1, i) << 8) | (byteOf(2, i) << 16) | (byteOf(3, i) << 24)) >>> 0;
    const high = (byteOf(4, i) | (byteOf(5, i) << 8) | (byteOf(6, i) << 16) | (byteOf(7, i) << 24)) >>> 0;
    const odd = low & 1;
    const half = ((low >>> 1) | ((high & 1) << 31)) >>> 0;
    if (!signed) out[i] = high * 4294967296 + low;
    else {
      const magnitude = (high >>> 1) * 4294967296 + half;
      out[i] = odd ? -magnitude - 1 : magnitude;
    }
  }
  return out;
}

// Column `name` as BigInts modulo 2**64: ids may use all 64 bits, which doubles do not hold.
async function readBigInts(payload, name) {
  const { n, signed } = payload.header.columns[name];
  const planes = await Promise.all(payload.places.get(name).map((p) => (p < 0 ? -1 - p : payload.read(...p))));
  const out = new BigUint64Array(n);
  const bytes = new Uint8Array(out.buffer);
  planes.forEach((plane, k) => {
    for (let i = 0; i < n; i++) bytes[8 * i + k] = typeof plane === "number" ? plane : plane[i];
  });
  if (signed) for (let i = 0; i < n; i++) out[i] = (out[i] >> 1n) ^ BigInt.asUintN(64, -(out[i] & 1n));
  return out;
}

export async function readTexts(payload, name) {
  const [place] = payload.places.get(name);
  return JSON.parse(new TextDecoder().decode(await payload.read(...place)));
}

// Start, end and parent of every event, from what cudalens/views/timeline/payload_order.py's nesting() left to say.
function unfoldTimes(lanes, n, closed, gap, tail) {
  const start = new Float64Array(n);
  const dur = new Float64Array(n);
  const open = [];
  const lastEnd = [];
  const close = () => {
    const row = open.pop();
    const inner = lastEnd[open.length + 1];
    const end = (inner < 0 ? start[row] : inner) + tail[row];
    dur[row] = end - start[row];
    lastEnd[open.length] = end;
  };
  let i = 0;
  for (const lane of lanes) {
    lastEnd[0] = 0;
    for (const stop = i + lane.count; i < stop; i++) {
      for (let k = closed[i]; k > 0; k--) close();
      const depth = open.length;
      const before = lastEnd[depth];
      start[i] = (before < 0 ? start[open[depth - 1]] : before) + gap[i];
      open.push(i);
      lastEnd[depth + 1] = -1;
    }
    while (open.length) close();
  }
  return { start, dur };
}

// Self time by the call tree of frames/tree.py: the parent is the nearest earlier event of the host lane that ends no
// earlier and later than the start. Also that parent, -1 for roots, device work and what stands outside of any tree.
function deriveTree(data) {
  const { n, start, dur, flags, header } = data;
  const own = dur.slice();
  const parent = new Int32Array(n).fill(-1);
  const depth = new Uint16Array(n);
  const stack = new Int32Array(n + 1);
  let i = 0;
  for (const lane of header.lanes) {
    const stop = i + lane.count;
    if (lane.kind === "device") {
      i = stop;
      continue;
    }
    let height = 0;
    for (; i < stop; i++) {
      if (flags[i] & PAYLOAD_FLAGS.outside) continue;
      const need = Math.max(start[i] + dur[i], start[i] + 1);
      while (height && start[stack[height - 1]] + dur[stack[height - 1]] < need) height--;
      if (height) {
        parent[i] = stack[height - 1];
        own[parent[i]] -= dur[i];
        depth[i] = height;
      }
      stack[height++] = i;
    }
  }
  return { own, parent, depth };
}

// Row in trace.events of every event: the lanes, merged by (start, longest first), and the corrections that were sent.
function deriveRows(data, at, off) {
  const { start, dur, header, n } = data;
  let runs = [];
  let from = 0;
  for (const lane of header.lanes) if (lane.count) runs.push([from, (from += lane.count)]);
  let order = new Int32Array(n);
  let other = new Int32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  const precedes = (a, b) => start[a] < start[b] || (start[a] === start[b] && dur[a] >= dur[b]);
  while (runs.length > 1) {
    const next = [];
    for (let r = 0; r < runs.length; r += 2) {
      const [a0, a1] = runs[r];
      const [b0, b1] = runs[r + 1] ?? [a1, a1];
      let a = a0;
      let b = b0;
      for (let k = a0; k < b1; k++) {
        other[k] = b >= b1 || (a < a1 && precedes(order[a], order[b])) ? order[a++] : order[b++];
      }
      next.push([a0, b1]);
    }
    [order, other] = [other, order];
    runs = next;
  }
  const row = new Int32Array(n);
  for (let k = 0; k < n; k++) row[order[k]] = k;
  for (let k = 0, place = 0; k < at.length; k++) {
    place += at[k];
    row[order[place]] = place + off[k];
  }
  return row;
}

function unfoldLaunches(n, flags, kind, launchers, steps) {
  const launch = new Int32Array(n).fill(-1);
  const launches = new Set(launchers);
  const calls = [];
  for (let i = 0; i < n; i++) if (launches.has(kind[i])) calls.push(i);
  for (let i = 0, k = 0, ordinal = -1; i < n; i++) {
    if (flags[i] & PAYLOAD_FLAGS.launched) launch[i] = calls[(ordinal += steps[k++] + 1)];
  }
  return launch;
}

async function readMemory(payload) {
  const facts = payload.header.memory;
  const names = ["ts", "device", "action", "bytes", "allocated_bytes", "reserved_bytes", "event"];
  const columns = await Promise.all(names.map((name) => readInts(payload, `mem.${name}`)));
  const [ts, device, action, bytes, allocated, reserved, event] = columns.map((c) => Float64Array.from(c));
  for (let i = 1; i < ts.length; i++) {
    ts[i] += ts[i - 1];
    event[i] += event[i - 1];
  }
  for (const column of [allocated, reserved]) {
    const before = new Float64Array(facts.devices.length);
    for (let i = 0; i < column.length; i++) {
      const value = (before[device[i]] += column[i]);
      column[i] = value === 0 ? NaN : value - 1;
    }
  }
  const all = { ts, bytes, allocated, reserved, action, event };
  return facts.devices.map((label, k) => {
    const rows = [...device.keys()].filter((i) => device[i] === k);
    const part = (column) => Float64Array.from(rows, (i) => column[i]);
    return { label, actions: facts.actions, ...Object.fromEntries(Object.entries(all).map(([key, c]) => [key, part(c)])) };
  });
}

// Readings of each GPU as {label, ts, values: {column: numbers, NaN where not told}, slowed: ids into reasons}.
async function readMetrics(payload) {
  const { devices = [], gauges = [], reasons = [] } = payload.header.metrics ?? {};
  return Promise.all(devices.map(async (label, k) => {
    const [steps, slowed, ...columns] = await Promise.all(
      ["ts", "slowed_by", ...gauges.map(({ column }) => column)].map((name) => readInts(payload, `met.${k}.${name}`)));
    const ts = Float64Array.from(steps);
    for (let i = 1; i < ts.length; i++) ts[i] += ts[i - 1];
    const decoded = columns.map((column, g) => Float64Array.from(column, (v) => (v === 0 ? NaN : (v - 1) / gauges[g].scale)));
    return { label, ts, slowed, reasons, values: Object.fromEntries(gauges.map(({ column }, g) => [column, decoded[g]])) };
  }));
}

async function readDetails(payload, columns) {
  for (const { name, coding } of payload.header.details) {
    if (coding === "dictionary") {
      const [codes, values] = await Promise.all([readInts(payload, `${name}.codes`), readTexts(payload, `${name}.values`)]);
      columns.set(name, { codes, values, at: (i) => (codes[i] ? values[codes[i] - 1] : null) });
    } else {
      const [known, steps] = await Promise.all([readInts(payload, `${name}.known`), readBigInts(payload, `${name}.steps`)]);
      for (let k = 1; k < steps.length; k++) steps[k] += steps[k - 1];
      const ordinal = new Uint32Array(known.length);
      for (let i = 0, k = 0; i < known.length; i++) ordinal[i] = known[i] ? ++k : 0;
      columns.set(name, { at: (i) => (ordinal[i] ? String(BigInt.asIntN(64, steps[ordinal[i] - 1])) : null) });
    }
  }
}

/**
 * Decodes a payload.
 *
 * @param {Uint8Array} bytes What pack() made.
 * @returns {Promise<object>} TraceData, n events lane by lane, in each lane by (start, longest first):
 *   header       t0 is text (it may need 64 bits); names, cats, lanes; dropped: details that the size limit left out
 *   start, dur, self   Float64Array of whole ns, start from header.t0
 *   name, cat, lane    ids into header.names, header.cats, header.lanes
 *   parent, depth      index of the parent in the host's call tree (-1 none) and number of ancestors
 *   flags, launch      PAYLOAD_FLAGS; index of the call that launched it (-1 none)
 *   row                row in trace.events; merged from the lanes when first asked for
 *   memory             [{label, ts, bytes, allocated, reserved, action, event}], NaN where not recorded
 *   metrics            [{label, ts, values, slowed, reasons}], readings of each GPU
 *   detail(i)          {column: text or null}; empty until detailsReady, which resolves after the first paint
 */
export async function decodePayload(bytes) {
  const payload = await openPayload(bytes);
  const { header } = payload;
  const { n } = header;
  const wanted = ["closed", "gap", "tail", "kind", "kind_name", "kind_cat", "flags", "launch", "launchers"];
  wanted.push("self_at", "self_off", "row_at", "row_off");
  const columns = await Promise.all([...wanted.map((name) => readInts(payload, name)), readTexts(payload, "names")]);
  const [closed, gap, tail, kind, kindName, kindCat, flags, launch, launchers, selfAt, selfOff, rowAt, rowOff, names] = columns;
  header.names = names;
  const data = { header, n, flags: Uint8Array.from(flags), ...unfoldTimes(header.lanes, n, closed, gap, tail) };
  data.name = new Uint32Array(n);
  data.cat = new (header.cats.length > 256 ? Uint16Array : Uint8Array)(n);
  for (let i = 0; i < n; i++) {
    data.name[i] = kindName[kind[i]];
    data.cat[i] = kindCat[kind[i]];
  }
  data.lane = new (header.lanes.length > 65536 ? Uint32Array : Uint16Array)(n);
  for (let l = 0, i = 0; l < header.lanes.length; l++) data.lane.fill(l, i, (i += header.lanes[l].count));
  const { own, parent, depth } = deriveTree(data);
  for (let k = 0, at = 0; k < selfAt.length; k++) own[(at += selfAt[k])] += selfOff[k];
  data.self = own;
  data.parent = parent;
  data.depth = depth;
  data.launch = unfoldLaunches(n, data.flags, kind, launchers, launch);
  // Rows are asked for by the kernel's side alone, after a click: merging a million events can wait until then.
  let row = null;
  Object.defineProperty(data, "row", { enumerable: true, get: () => (row ??= deriveRows(data, rowAt, rowOff)) });
  data.memory = await readMemory(payload);
  data.metrics = await readMetrics(payload);
  const details = new Map();
  data.detail = (i) => Object.fromEntries([...details].map(([name, column]) => [name, column.at(i)]));
  data.detailsReady = new Promise((resolve) => setTimeout(resolve, 0)).then(() => readDetails(payload, details));
  // Whoever wants to know of a failure awaits detailsReady; the timeline does without.
  data.detailsReady.catch(() => {});
  return data;
}
