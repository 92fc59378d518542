// Third-party libraries, loaded when first needed and once per page: DataTables (from itables) and Plotly.
// A library arrives gzipped from the kernel or from the report's own file; no network is involved.

export async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function sharedLibraries() {
  const key = Symbol.for("cudalens.libraries");
  globalThis[key] ??= new Map();
  return globalThis[key];
}

// The module `name` as a namespace object; `fetchBytes(name)` gives its gzipped text.
export function loadLibrary(name, version, fetchBytes) {
  const libraries = sharedLibraries();
  const key = `${name}@${version}`;
  if (!libraries.has(key)) {
    const loading = fetchBytes(name).then(inflate).then(importBytes);
    // A failed load is tried again by the next widget instead of failing for good.
    loading.catch(() => libraries.delete(key));
    libraries.set(key, loading);
  }
  return libraries.get(key);
}

// Names that the libraries claim on the page for themselves; whoever owned them before gets them back.
const CLAIMED = ["$", "moduleName"];

async function importBytes(bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  const before = CLAIMED.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  try {
    const module = await import(url);
    // Plotly's bundle is no ES module: it leaves itself in a global of this name.
    return "default" in module ? module : { default: globalThis.moduleName };
  } finally {
    URL.revokeObjectURL(url);
    CLAIMED.forEach((name, i) => {
      if (before[i]) Object.defineProperty(globalThis, name, before[i]);
      else delete globalThis[name];
    });
  }
}
