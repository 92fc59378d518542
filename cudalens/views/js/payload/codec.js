// Read the binary payloads that cudalens/views/timeline/payload_codec.py describes: a JSON header, and columns of
// integers or texts.

/** @typedef {{ n: number, signed: boolean, planes: number[] }} IntColumn Negative planes are constants. */
/** @typedef {{ text: number }} TextColumn */
/** @typedef {{ version: number, columns: { [name: string]: IntColumn | TextColumn } }} BaseHeader */
/** @typedef {[from: number, size: number]} Place */
/** @typedef {Int32Array<ArrayBuffer> | Uint32Array<ArrayBuffer> | Float64Array<ArrayBuffer>} Ints */

/**
 * @template {BaseHeader} [Header=BaseHeader]
 * @typedef {object} Payload
 * @property {Header} header
 * @property {Map<string, (Place | number)[]>} places Place of every blob of a column, or its constant as -1 - value.
 * @property {(place: Place) => Uint8Array<ArrayBuffer> | Promise<Uint8Array<ArrayBuffer>>} read
 */

const VERSION = 1;

/**
 * One stream through the browser's own inflater.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 */
async function inflateBytes(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} what */
function payloadError(what) {
  return new Error(`cudalens payload: ${what}. Save the trace again with the same version of cudalens.`);
}

/**
 * Header and the place of every blob.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<Payload<any>>} The caller states the type of the header.
 */
export async function openPayload(bytes) {
  if (bytes.byteLength < 12 || String.fromCharCode(...bytes.subarray(0, 4)) !== "CLP1") {
    throw payloadError(`found ${bytes.byteLength} bytes that do not begin with CLP1`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isDeflated = view.getUint32(4, true) === 1;
  const read = (/** @type {Place} */ [from, size]) => {
    const end = from + size;
    if (end > bytes.byteLength) throw payloadError(`it ends at byte ${bytes.byteLength}, ${end} expected`);
    const blob = bytes.subarray(from, end);
    return isDeflated ? inflateBytes(blob) : blob;
  };
  const headSize = view.getUint32(8, true);
  /** @type {BaseHeader} */
  const header = JSON.parse(new TextDecoder().decode(await read([12, headSize])));
  if (header.version !== VERSION) throw payloadError(`found version ${header.version}, expected ${VERSION}`);
  return { header, places: placesOf(header, 12 + headSize), read };
}

/**
 * @param {BaseHeader} header
 * @param {number} begin Of the first blob.
 */
function placesOf(header, begin) {
  /** @type {Map<string, (Place | number)[]>} */
  const places = new Map();
  let at = begin;
  for (const [name, column] of Object.entries(header.columns)) {
    /** @type {(Place | number)[]} */
    const found = [];
    for (const size of "text" in column ? [column.text] : column.planes) {
      found.push(size < 0 ? size : [at, size]);
      if (size > 0) at += size;
    }
    places.set(name, found);
  }
  return places;
}

/**
 * Facts and byte planes of an integer column; a constant plane is a number.
 *
 * @param {Payload} payload
 * @param {string} name
 */
async function readPlanes({ header, places, read }, name) {
  const { n, signed } = /** @type {IntColumn} */ (header.columns[name]);
  const parts = places.get(name) ?? [];
  const planes = await Promise.all(parts.map((part) => (typeof part === "number" ? -1 - part : read(part))));
  return { n, signed, planes };
}

/**
 * Column `name` as numbers: Int32Array or Uint32Array where it fits, else Float64Array.
 *
 * @param {Payload} payload
 * @param {string} name
 * @returns {Promise<Ints>}
 */
export async function readInts(payload, name) {
  const { n, signed, planes } = await readPlanes(payload, name);
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

/**
 * @param {(Uint8Array | number)[]} planes
 * @param {number} n
 * @param {boolean} signed
 */
function wideInts(planes, n, signed) {
  const out = new Float64Array(n);
  const byteOf = (/** @type {number} */ k, /** @type {number} */ i) => {
    const plane = planes[k] ?? 0;
    return typeof plane === "number" ? plane : plane[i];
  };
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

/**
 * Column `name` as BigInts modulo 2**64: ids may use all 64 bits, which doubles do not hold.
 *
 * @param {Payload} payload
 * @param {string} name
 */
export async function readBigInts(payload, name) {
  const { n, signed, planes } = await readPlanes(payload, name);
  const out = new BigUint64Array(n);
  const bytes = new Uint8Array(out.buffer);
  planes.forEach((plane, k) => {
    for (let i = 0; i < n; i++) bytes[8 * i + k] = typeof plane === "number" ? plane : plane[i];
  });
  if (signed) for (let i = 0; i < n; i++) out[i] = (out[i] >> 1n) ^ BigInt.asUintN(64, -(out[i] & 1n));
  return out;
}

/**
 * @param {Payload} payload
 * @param {string} name
 * @returns {Promise<string[]>}
 */
export async function readTexts({ places, read }, name) {
  const [place] = /** @type {Place[]} */ (places.get(name));
  return JSON.parse(new TextDecoder().decode(await read(place)));
}
