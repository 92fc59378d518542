// Load third-party libraries when first needed, once per page: DataTables (from itables) and Plotly.
// A library arrives gzipped from the kernel or from the report's own file; no network is involved.

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

/** @returns {Map<string, Promise<{ default: unknown }>>} */
function sharedLibraries() {
  const page = /** @type {{ [SHARED_KEY]?: Map<string, Promise<{ default: unknown }>> }} */ (globalThis);
  page[SHARED_KEY] ??= new Map();
  return page[SHARED_KEY];
}

/**
 * The default export of a library. If the view that is loading it is closed, another one that waits for it loads it.
 *
 * @param {string} name
 * @param {string} version Two versions are two libraries.
 * @param {FetchBytes} fetchBytes
 * @returns {Promise<unknown>}
 */
export async function loadLibrary(name, version, fetchBytes) {
  const libraries = sharedLibraries();
  const key = `${name}@${version}`;
  for (let others = libraries.get(key); others; others = libraries.get(key)) {
    const found = await others.catch(() => null);
    if (found) return found.default;
  }
  const loading = fetchBytes(name).then(inflate).then(importBytes);
  // A failed load is tried again by the next widget instead of failing for good.
  loading.catch(() => libraries.delete(key));
  libraries.set(key, loading);
  return (await loading).default;
}

// Global names that the libraries set; their earlier values are restored.
const CLAIMED = ["$", "moduleName"];

/**
 * @param {Uint8Array<ArrayBuffer>} bytes The text of a script or module.
 * @returns {Promise<{ default: unknown }>}
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
