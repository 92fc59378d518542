// Load third-party libraries when first needed, once per page: DataTables (from itables) and Plotly.
// A library arrives gzipped from the kernel or from the report's own file; no network is involved.

/** @typedef {{ default: unknown }} Loaded */

/** @typedef {(name: string) => Promise<Uint8Array<ArrayBuffer>>} FetchBytes The gzipped bytes of a library. */

/**
 * @param {Uint8Array<ArrayBuffer>} bytes Gzipped.
 * @returns {Promise<Uint8Array<ArrayBuffer>>}
 */
export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/**
 * JSON that was gzipped.
 *
 * @param {Uint8Array<ArrayBuffer>} bytes
 * @returns {Promise<any>} Its shape depends on the caller, which states it.
 */
export async function inflateJson(bytes) {
  return JSON.parse(new TextDecoder().decode(await inflate(bytes)));
}

const SHARED_KEY = Symbol.for("cudalens.libraries");

/** @returns {Map<string, Promise<Loaded>>} Loads that have ended well, and loads under way, which name their sender. */
function sharedLoads() {
  const page = /** @type {{ [SHARED_KEY]?: Map<string, Promise<Loaded>> }} */ (globalThis);
  page[SHARED_KEY] ??= new Map();
  return page[SHARED_KEY];
}

/**
 * The default export of a library. If the view that is loading it is closed, another one that waits for it loads it.
 * Views wait for a load of the same sender only: another kernel may be busy, or restarted and never answer.
 *
 * @param {string} name
 * @param {string} version Two versions are two libraries.
 * @param {FetchBytes} fetchBytes
 * @param {string} [sender] Who answers `fetchBytes`.
 * @returns {Promise<unknown>}
 */
export async function loadLibrary(name, version, fetchBytes, sender = "") {
  const loads = sharedLoads();
  const library = `${name}@${version}`;
  const underWay = `${library} from ${sender}`;
  const others = () => loads.get(library) ?? loads.get(underWay);
  for (let load = others(); load; load = others()) {
    const found = await load.catch(() => null);
    if (found) return found.default;
  }
  const loading = fetchBytes(name).then(inflate).then(importBytes);
  loads.set(underWay, loading);
  // A failed load is tried again by the next widget instead of failing for good.
  loading
    .then(() => loads.set(library, loading))
    .catch(() => {})
    .then(() => loads.delete(underWay));
  return (await loading).default;
}

// Global names that the libraries set; their earlier values are restored.
const CLAIMED = ["$", "moduleName"];

/**
 * @param {Uint8Array<ArrayBuffer>} bytes The text of a script or module.
 * @returns {Promise<Loaded>}
 */
async function importBytes(bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  const before = CLAIMED.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  try {
    const module = await import(url);
    // Plotly's bundle is no ES module: it puts itself into a global of this name.
    return "default" in module ? module : { default: Reflect.get(globalThis, "moduleName") };
  } finally {
    URL.revokeObjectURL(url);
    CLAIMED.forEach((name, i) => {
      const descriptor = before[i];
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else Reflect.deleteProperty(globalThis, name);
    });
  }
}
