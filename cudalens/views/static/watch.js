/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */

// js/payload/codec.js
var VERSION = 1;
async function inflateBytes(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
function payloadError(what) {
  return new Error(`cudalens payload: ${what}. Save the trace again with the same version of cudalens.`);
}
async function openPayload(bytes) {
  if (bytes.byteLength < 12 || String.fromCharCode(...bytes.subarray(0, 4)) !== "CLP1") {
    throw payloadError(`found ${bytes.byteLength} bytes that do not begin with CLP1`);
  }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isDeflated = view.getUint32(4, true) === 1;
  const read = ([from, size]) => {
    const end = from + size;
    if (end > bytes.byteLength) throw payloadError(`it ends at byte ${bytes.byteLength}, ${end} expected`);
    const blob = bytes.subarray(from, end);
    return isDeflated ? inflateBytes(blob) : blob;
  };
  const headSize = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(await read([12, headSize])));
  if (header.version !== VERSION) throw payloadError(`found version ${header.version}, expected ${VERSION}`);
  return { header, places: placesOf(header, 12 + headSize), read };
}
function placesOf(header, begin) {
  const places = /* @__PURE__ */ new Map();
  let at = begin;
  for (const [name, column] of Object.entries(header.columns)) {
    const found = [];
    for (const size of "text" in column ? [column.text] : column.planes) {
      found.push(size < 0 ? size : [at, size]);
      if (size > 0) at += size;
    }
    places.set(name, found);
  }
  return places;
}
async function readPlanes({ header, places, read }, name) {
  const { n, signed } = (
    /** @type {IntColumn} */
    header.columns[name]
  );
  const parts = places.get(name) ?? [];
  const planes = await Promise.all(parts.map((part) => typeof part === "number" ? -1 - part : read(part)));
  return { n, signed, planes };
}
async function readInts(payload, name) {
  const { n, signed, planes } = await readPlanes(payload, name);
  if (planes.length > 4 || signed && planes.length === 4) return wideInts(planes, n, signed);
  const out = new Uint32Array(n);
  planes.forEach((plane, k) => {
    if (typeof plane === "number") {
      if (plane) for (let i = 0; i < n; i++) out[i] |= plane << 8 * k;
    } else if (k === 0) for (let i = 0; i < n; i++) out[i] = plane[i];
    else for (let i = 0; i < n; i++) out[i] |= plane[i] << 8 * k;
  });
  if (!signed) return out;
  const back = new Int32Array(out.buffer);
  for (let i = 0; i < n; i++) back[i] = out[i] >>> 1 ^ -(out[i] & 1);
  return back;
}
function wideInts(planes, n, signed) {
  const out = new Float64Array(n);
  const byteOf = (k, i) => {
    const plane = planes[k] ?? 0;
    return typeof plane === "number" ? plane : plane[i];
  };
  for (let i = 0; i < n; i++) {
    const low = (byteOf(0, i) | byteOf(1, i) << 8 | byteOf(2, i) << 16 | byteOf(3, i) << 24) >>> 0;
    const high = (byteOf(4, i) | byteOf(5, i) << 8 | byteOf(6, i) << 16 | byteOf(7, i) << 24) >>> 0;
    const odd = low & 1;
    const half = (low >>> 1 | (high & 1) << 31) >>> 0;
    if (!signed) out[i] = high * 4294967296 + low;
    else {
      const magnitude = (high >>> 1) * 4294967296 + half;
      out[i] = odd ? -magnitude - 1 : magnitude;
    }
  }
  return out;
}
async function readBigInts(payload, name) {
  const { n, signed, planes } = await readPlanes(payload, name);
  const out = new BigUint64Array(n);
  const bytes = new Uint8Array(out.buffer);
  planes.forEach((plane, k) => {
    for (let i = 0; i < n; i++) bytes[8 * i + k] = typeof plane === "number" ? plane : plane[i];
  });
  if (signed) for (let i = 0; i < n; i++) out[i] = out[i] >> 1n ^ BigInt.asUintN(64, -(out[i] & 1n));
  return out;
}
async function readTexts({ places, read }, name) {
  const [place] = (
    /** @type {Place[]} */
    places.get(name)
  );
  return JSON.parse(new TextDecoder().decode(await read(place)));
}

// js/payload/columns.js
async function readMemory(payload) {
  const { devices, actions } = payload.header.memory;
  const names = ["ts", "device", "action", "bytes", "allocated_bytes", "reserved_bytes", "event"];
  const columns = await Promise.all(names.map((name) => readInts(payload, `mem.${name}`)));
  const [ts, device, action, bytes, allocated, reserved, event] = columns.map((column) => Float64Array.from(column));
  for (let i = 1; i < ts.length; i++) {
    ts[i] += ts[i - 1];
    event[i] += event[i - 1];
  }
  for (const column of [allocated, reserved]) undoSteps(column, device, devices.length);
  return devices.map((label, k) => {
    const rows = [...device.keys()].filter((i) => device[i] === k);
    const part = (column) => Float64Array.from(rows, (i) => column[i]);
    return {
      label,
      actions,
      ts: part(ts),
      bytes: part(bytes),
      allocated: part(allocated),
      reserved: part(reserved),
      action: part(action),
      event: part(event)
    };
  });
}
function undoSteps(column, device, numDevices) {
  const before = new Float64Array(numDevices);
  for (let i = 0; i < column.length; i++) {
    before[device[i]] += column[i];
    const value = before[device[i]];
    column[i] = value === 0 ? Number.NaN : value - 1;
  }
}
async function readMetrics(payload) {
  const { devices, gauges, reasons } = payload.header.metrics;
  return Promise.all(devices.map((label, k) => readDevice(payload, gauges, { label, k, reasons })));
}
async function readDevice(payload, gauges, { label, k, reasons }) {
  const names = ["ts", "slowed_by", ...gauges.map(({ column }) => column)];
  const [steps, slowed, ...columns] = await Promise.all(names.map((name) => readInts(payload, `met.${k}.${name}`)));
  const ts = Float64Array.from(steps);
  for (let i = 1; i < ts.length; i++) ts[i] += ts[i - 1];
  const decoded = gauges.map(
    ({ scale }, g) => Float64Array.from(columns[g], (value) => value === 0 ? Number.NaN : (value - 1) / scale)
  );
  return {
    label,
    ts,
    slowed,
    reasons,
    values: Object.fromEntries(gauges.map(({ column }, g) => [column, decoded[g]]))
  };
}
async function readDetails(payload, columns) {
  for (const { name, coding } of payload.header.details) {
    columns.set(name, await (coding === "dictionary" ? readDictionary(payload, name) : readIds(payload, name)));
  }
}
async function readDictionary(payload, name) {
  const [codes, values] = await Promise.all([readInts(payload, `${name}.codes`), readTexts(payload, `${name}.values`)]);
  return (i) => codes[i] ? values[codes[i] - 1] : null;
}
async function readIds(payload, name) {
  const [known, steps] = await Promise.all([readInts(payload, `${name}.known`), readBigInts(payload, `${name}.steps`)]);
  for (let k = 1; k < steps.length; k++) steps[k] += steps[k - 1];
  const ordinal = new Uint32Array(known.length);
  for (let i = 0, k = 0; i < known.length; i++) ordinal[i] = known[i] ? ++k : 0;
  return (i) => ordinal[i] ? String(BigInt.asIntN(64, steps[ordinal[i] - 1])) : null;
}

// js/payload/derive.js
var EVENT_FLAGS = { instant: 1, folded: 2, outside: 4, launched: 8, waiting: 16 };
function unfoldTimes(lanes, n, closed, gap, tail) {
  const start = new Float64Array(n);
  const dur = new Float64Array(n);
  const open = [];
  const lastEnd = [];
  const close = () => {
    const row = (
      /** @type {number} */
      open.pop()
    );
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
function deriveTree({ n, start, dur, flags, header }) {
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
      if (flags[i] & EVENT_FLAGS.outside) continue;
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
function laneRuns(lanes) {
  const runs = [];
  let from = 0;
  for (const { count } of lanes) {
    if (count) runs.push([from, from + count]);
    from += count;
  }
  return runs;
}
function deriveRows({ start, dur, header, n }, at, off) {
  let runs = laneRuns(header.lanes);
  let order = new Int32Array(n);
  let other = new Int32Array(n);
  for (let i = 0; i < n; i++) order[i] = i;
  const precedes = (a, b) => start[a] < start[b] || start[a] === start[b] && dur[a] >= dur[b];
  while (runs.length > 1) {
    const next = [];
    for (let r = 0; r < runs.length; r += 2) {
      const [a0, a1] = runs[r];
      const [b0, b1] = runs[r + 1] ?? [a1, a1];
      let a = a0;
      let b = b0;
      for (let k = a0; k < b1; k++) {
        other[k] = b >= b1 || a < a1 && precedes(order[a], order[b]) ? order[a++] : order[b++];
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
    if (!(flags[i] & EVENT_FLAGS.launched)) continue;
    ordinal += steps[k++] + 1;
    launch[i] = calls[ordinal];
  }
  return launch;
}

// js/payload/payload.js
async function decodePayload(bytes) {
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
  const details = /* @__PURE__ */ new Map();
  const detailsReady = new Promise((resolve) => setTimeout(resolve, 0)).then(() => readDetails(payload, details));
  detailsReady.catch(() => {
  });
  let rows = null;
  return {
    ...times,
    ...unfoldKinds(header, columns),
    lane: unfoldLanes(lanes, n),
    self: own,
    parent,
    depth,
    launch: unfoldLaunches(n, flags, columns.kind, columns.launchers, columns.launch),
    // Only needed after a click: merging a million events can wait until then.
    get row() {
      rows ??= deriveRows(times, columns.row_at, columns.row_off);
      return rows;
    },
    memory,
    metrics,
    detail: (i) => Object.fromEntries([...details].map(([name, at]) => [name, at(i)])),
    detailOf: (name) => details.get(name) ?? (() => null),
    detailsReady
  };
}
var COLUMNS = (
  /** @type {const} */
  [
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
    "row_off"
  ]
);
async function readColumns(payload) {
  const columns = await Promise.all(COLUMNS.map((name) => readInts(payload, name)));
  return (
    /** @type {EventColumns} */
    Object.fromEntries(COLUMNS.map((name, k) => [name, columns[k]]))
  );
}
function unfoldKinds({ n, cats }, { kind, kind_name, kind_cat }) {
  const name = new Uint32Array(n);
  const cat = cats.length > 256 ? new Uint16Array(n) : new Uint8Array(n);
  for (let i = 0; i < n; i++) {
    name[i] = kind_name[kind[i]];
    cat[i] = kind_cat[kind[i]];
  }
  return { name, cat };
}
function unfoldLanes(lanes, n) {
  const lane = lanes.length > 65536 ? new Uint32Array(n) : new Uint16Array(n);
  let from = 0;
  lanes.forEach(({ count }, l) => {
    lane.fill(l, from, from + count);
    from += count;
  });
  return lane;
}
function addAt(values, at, off) {
  let place = 0;
  for (let k = 0; k < at.length; k++) {
    place += at[k];
    values[place] += off[k];
  }
}

// js/shared/dom.js
var SVG_NAMESPACE = "http://www.w3.org/2000/svg";
function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === void 0 || value === false) continue;
    if (typeof value === "function") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== void 0));
  return node;
}
function contextOf(canvas, settings) {
  const context = canvas.getContext("2d", settings);
  if (context === null) throw new Error("this browser cannot draw on a canvas");
  return context;
}
function findAll(root, selector, type) {
  return (
    /** @type {Found[]} */
    [...root.querySelectorAll(selector)].filter((node) => node instanceof type)
  );
}

// js/shared/markup.js
var TAGS = /* @__PURE__ */ new Set([
  "article",
  "b",
  "code",
  "dd",
  "details",
  "div",
  "dl",
  "dt",
  "h4",
  "li",
  "ol",
  "p",
  "pre",
  "span",
  "strong",
  "summary",
  "table",
  "tbody",
  "td",
  "th",
  "thead",
  "tr",
  "ul"
]);
var SHAPES = /* @__PURE__ */ new Set(["svg", "title", "rect", "path", "text"]);
var ATTRIBUTES = /* @__PURE__ */ new Set([
  "class",
  "colspan",
  "scope",
  "role",
  "tabindex",
  "open",
  "title",
  "aria-hidden",
  "aria-label",
  "viewBox",
  "width",
  "height",
  "preserveAspectRatio",
  "x",
  "y",
  "rx",
  "d",
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-dasharray",
  "opacity",
  "data-event",
  "data-label",
  "data-wide",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor"
]);
function buildMarkup(tree) {
  return typeof tree === "string" ? document.createTextNode(tree) : buildElement(tree);
}
function buildElement([tag, attributes, ...children]) {
  const isShape = SHAPES.has(tag);
  if (!isShape && !TAGS.has(tag)) throw new Error(`cudalens markup: the element ${tag} is not known here`);
  const node = isShape ? document.createElementNS(SVG_NAMESPACE, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (ATTRIBUTES.has(name)) node.setAttribute(name, value);
  if (tag === "h4") node.setAttribute("aria-level", "3");
  node.append(...children.map(buildMarkup));
  return node;
}

// js/shared/model.js
function uniqueId() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}

// js/shared/page_theme.js
function pageTheme() {
  if (matchMedia("print").matches) return "light";
  const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
  if (jpThemeLight !== void 0) return jpThemeLight === "false" ? "dark" : "light";
  if (vscodeThemeKind !== void 0) return vscodeThemeKind.includes("light") ? "light" : "dark";
  const named = document.documentElement.dataset.theme;
  if (named === "dark" || named === "light") return named;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
function watchPageTheme(onChange) {
  let current = pageTheme();
  const check = () => {
    const theme = pageTheme();
    if (theme === current) return;
    current = theme;
    onChange(theme);
  };
  const observer = new MutationObserver(check);
  const filter = { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind", "data-theme"] };
  observer.observe(document.body, filter);
  observer.observe(document.documentElement, filter);
  const queries = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];
  for (const query of queries) query.addEventListener("change", check);
  return () => {
    observer.disconnect();
    for (const query of queries) query.removeEventListener("change", check);
  };
}

// js/shared/static_pictures.js
function findPictures(id) {
  return id ? findAll(document, `[data-cudalens-static="${CSS.escape(id)}"]`, HTMLElement) : [];
}
function hidePictures(id, isHidden) {
  const outputs = findPictures(id).map(
    (picture) => (
      /** @type {HTMLElement | null} */
      picture.closest(".jp-OutputArea-child") ?? picture
    )
  );
  const between2 = outputs.length > 1 ? outputs[0].nextElementSibling : null;
  if (between2 instanceof HTMLElement && between2.nextElementSibling === outputs[1]) outputs.push(between2);
  for (const output of outputs) output.style.display = isHidden ? "none" : "";
}

// js/app/measure.js
function between({ start, dur }, a, b) {
  const [first, second] = start[a] <= start[b] ? [a, b] : [b, a];
  const end = start[first] + dur[first];
  return end < start[second] ? [end, start[second]] : [start[first], Math.max(start[second], start[first] + 1)];
}

// js/shared/format.js
function threeDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}
var TIME_UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"]
];
var BYTE_UNITS = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"]
];
function formatDuration(ns) {
  if (ns === null || ns === void 0 || Number.isNaN(ns)) return "-";
  if (ns < 0) return `-${formatDuration(-ns)}`;
  if (ns >= 1195e8) {
    const seconds = Math.round(ns / 1e9);
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }
  for (const [scale, unit] of TIME_UNITS) {
    if (ns >= 0.9995 * scale) return `${threeDigits(ns / scale)} ${unit}`;
  }
  return ns >= 0.9995 || ns === 0 ? `${ns.toFixed(0)} ns` : `${Number(ns.toPrecision(2))} ns`;
}
function formatCount(number) {
  return number.toLocaleString("en-US");
}

// js/timeline/style.js
var STYLE = `
.cltl { --timeline-bg: #fff; --timeline-text: #1b1f24; position: relative; color: var(--timeline-text); background: var(--timeline-bg);
  font: 12px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; text-align: left; }
.cltl * { box-sizing: border-box; }
.cltl-tools { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; padding: 0 0 6px; }
.cltl-tools button, .cltl-search { font: inherit; color: inherit; background: var(--timeline-field);
  border: 1px solid var(--timeline-line); border-radius: 6px; height: 26px; }
.cltl-tools button { padding: 0 9px; cursor: pointer; }
.cltl-tools button:hover { background: var(--timeline-soft); }
.cltl-search { padding: 0 8px; width: 190px; }
.cltl-group { display: inline-flex; gap: 4px; align-items: center; }
.cltl-matches { color: var(--timeline-muted); min-width: 4em; font-variant-numeric: tabular-nums; }
.cltl-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; margin: 0 0 0 auto; padding: 0; list-style: none; color: var(--timeline-muted); }
.cltl-legend li { display: inline-flex; align-items: center; gap: 5px; margin: 0; }
.cltl-legend i { width: 11px; height: 11px; border-radius: 2px; }
.cltl button[aria-pressed=true] { background: var(--timeline-accent); color: var(--timeline-bg); border-color: transparent; }
.cltl-lanes { border: 1px solid var(--timeline-line); border-radius: 8px; margin: 0 0 6px; max-height: 220px; overflow: auto; scrollbar-width: thin; }
.cltl-lanes ul { list-style: none; margin: 0; padding: 4px; }
.cltl-lanes li { display: flex; flex-wrap: wrap; gap: 4px; align-items: center; margin: 0; padding: 2px 4px; }
.cltl-lanes :is(button, input) { font: inherit; color: inherit; background: var(--timeline-field); border: 1px solid var(--timeline-line);
  border-radius: 6px; height: 24px; padding: 0 7px; }
.cltl-lanes button:disabled { opacity: .4; }
.cltl-lane { flex: 1 1 140px; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; padding: 0 6px; }
.cltl-lanes input { width: 160px; }
.cltl-frame { position: relative; overflow: hidden auto; border: 1px solid var(--timeline-line); border-radius: 8px;
  resize: vertical; background: var(--timeline-bg); overscroll-behavior-x: contain; scrollbar-width: thin; }
.cltl-stage { position: relative; }
.cltl-canvas { position: sticky; top: 0; left: 0; display: block; touch-action: pan-y; cursor: default; outline: none; }
.cltl-frame:has(.cltl-canvas:focus-visible) { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl :is(button, input):focus-visible { outline: 2px solid var(--timeline-accent); outline-offset: 1px; }
.cltl-tip { position: absolute; z-index: 5; max-width: min(440px, 90%); padding: 6px 9px; border-radius: 6px; pointer-events: none;
  background: var(--timeline-tip); color: var(--timeline-tip-text); box-shadow: 0 2px 8px #0005; overflow-wrap: anywhere; }
.cltl-tip b { display: block; font-weight: 600; }
.cltl-tip[hidden] { display: none; }
.cltl-hint { color: var(--timeline-muted); padding: 4px 2px 0; font-size: 11.5px; }
.cltl-hint span { white-space: nowrap; margin-right: 8px; }
.cltl-hint kbd { font: inherit; border: 1px solid var(--timeline-line); border-radius: 4px; padding: 0 4px; }
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;
var SHEET_KEY = /* @__PURE__ */ Symbol.for("cudalens.timeline.style");
function adoptStyle(root) {
  const scope = root.getRootNode();
  const target = (
    /** @type {DocumentOrShadowRoot & { [SHEET_KEY]?: CSSStyleSheet }} */
    scope instanceof ShadowRoot ? scope : document
  );
  if (target[SHEET_KEY]) return;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(STYLE);
  target[SHEET_KEY] = sheet;
  target.adoptedStyleSheets = [...target.adoptedStyleSheets, sheet];
}
function setColors({ style }, colors) {
  const { bg, text, muted, line, lineSoft: soft, accent, tip, field } = colors;
  for (const [name, color] of Object.entries({ bg, text, muted, line, soft, accent, tip, field })) {
    style.setProperty(`--timeline-${name}`, color);
  }
  style.setProperty("--timeline-tip-text", colors.tipText);
  style.setProperty("color-scheme", bg < "#8" ? "dark" : "light");
}

// js/timeline/dom.js
var HELP_TEXT = "W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, L follows a launch arrow. F fits, slash searches, C folds a lane, P pins it, Escape goes back.";
var KEY_HINTS = [
  ["wheel", "zoom, after a click"],
  ["Ctrl+wheel", "zoom"],
  ["drag", "pan"],
  ["Shift+drag", "select time"],
  ["W A S D", "move"],
  ["F", "fit"],
  ["/", "search"],
  ["Enter", "step through events"]
];
function buildDom(root) {
  adoptStyle(root);
  const controls = buildControls();
  const canvas = element("canvas", {
    class: "cltl-canvas",
    tabindex: "0",
    role: "application",
    "aria-roledescription": "timeline",
    "aria-label": "Timeline of the trace"
  });
  const stage = element("div", { class: "cltl-stage" }, canvas);
  const frame = element("div", { class: "cltl-frame" }, stage);
  const tip = element("div", { class: "cltl-tip", hidden: true, "aria-hidden": "true" });
  const spoken = element("div", { class: "cltl-spoken", "aria-live": "polite" });
  const help = element("div", { class: "cltl-spoken", id: `cltl-${Math.random().toString(36).slice(2)}` }, HELP_TEXT);
  canvas.setAttribute("aria-describedby", help.id);
  const lanes = element("div", { class: "cltl-lanes", hidden: true });
  const attributes = { class: "cltl", role: "group", "aria-label": "Stream timeline" };
  const host = element("div", attributes, controls.tools, lanes, frame, keyHints(), tip, spoken, help);
  for (const node of host.querySelectorAll("canvas, input, button")) {
    node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  root.append(host);
  return { ...controls, canvas, stage, frame, lanes, tip, spoken, host };
}
function buildControls() {
  const button = (label, text, title) => element("button", { type: "button", "aria-label": label, title }, text);
  const group = (...children) => element("span", { class: "cltl-group" }, ...children);
  const search = element("input", {
    class: "cltl-search",
    type: "search",
    placeholder: "Search names  ( / )",
    "aria-label": "Search event names",
    autocomplete: "off",
    spellcheck: "false"
  });
  const matches = element("span", { class: "cltl-matches", role: "status" });
  const previous = button("Previous match", "‹", "Previous match (Shift+Enter)");
  const next = button("Next match", "›", "Next match (Enter)");
  const zoomIn = button("Zoom in", "+", "Zoom in (W)");
  const zoomOut = button("Zoom out", "−", "Zoom out (S)");
  const fit = button("Fit the whole trace", "Fit", "Show the whole trace (F)");
  const lanesButton = button("Lanes", "Lanes", "Pin, move, fold and filter lanes");
  lanesButton.setAttribute("aria-expanded", "false");
  const legend = element("ul", { class: "cltl-legend", "aria-label": "Colours" });
  const tools = element(
    "div",
    { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(search, previous, next, matches),
    group(zoomOut, zoomIn, fit, lanesButton),
    legend
  );
  return { search, matches, previous, next, zoomIn, zoomOut, fit, lanesButton, legend, tools };
}
function keyHints() {
  const hints = KEY_HINTS.flatMap(([key, what]) => [element("span", {}, element("kbd", {}, key), ` ${what}`), " "]);
  return element("div", { class: "cltl-hint", "aria-hidden": "true" }, ...hints);
}
function fillLegend(dom, entries) {
  dom.legend.replaceChildren(
    ...entries.map(([label, color]) => {
      const swatch = element("i", { "aria-hidden": "true" });
      swatch.style.background = color;
      return element("li", {}, swatch, label);
    })
  );
}
function showTip(dom, lines, x, y) {
  const [name, ...rest] = lines;
  dom.tip.replaceChildren(element("b", {}, name), ...rest.map((line) => element("div", {}, line)));
  dom.tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = dom.tip;
  const room = dom.host.clientWidth;
  dom.tip.style.left = `${Math.max(0, x + 14 + width > room ? x - width - 10 : x + 14)}px`;
  dom.tip.style.top = `${y + 18 + height > dom.host.clientHeight ? y - height - 8 : y + 18}px`;
}

// js/timeline/view.js
var ROW_HEIGHT = 18;
var RULER_HEIGHT = 24;
var OVERVIEW_HEIGHT = 26;
var HEAD_HEIGHT = RULER_HEIGHT + OVERVIEW_HEIGHT;
var LANE_PADDING = 4;
var MIN_WINDOW_NS = 20;
function timelineExtent(data, isWork = false) {
  let low = Infinity;
  let high = -Infinity;
  const isMark = data.header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < data.n; i++) {
    if (isWork && (isMark[data.cat[i]] || data.flags[i] & EVENT_FLAGS.instant)) continue;
    if (data.start[i] < low) low = data.start[i];
    const end = data.start[i] + data.dur[i];
    if (end > high) high = end;
  }
  if (low === Infinity) return isWork ? timelineExtent(data) : [0, 1e3];
  return [low, Math.max(high, low + 1)];
}
function clampWindow([t0, t1], extent) {
  const whole = (extent[1] - extent[0]) * 1.04;
  const span = Math.min(Math.max(t1 - t0, Math.min(MIN_WINDOW_NS, whole)), whole);
  const middle = (t0 + t1) / 2;
  const low = extent[0] - span * 0.9;
  const high = extent[1] - span * 0.1;
  const from = span >= whole ? (extent[0] + extent[1] - whole) / 2 : Math.min(Math.max(middle - span / 2, low), high);
  return [from, from + span];
}
function fitWindow(extent) {
  const margin = (extent[1] - extent[0]) * 0.02;
  return [extent[0] - margin, extent[1] + margin];
}
function rulerTicks(t0, t1, width, gap = 110) {
  const raw = (t1 - t0) * gap / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(1, ([1, 2, 5, 10].find((k) => k * power >= raw * 0.999) ?? 10) * power);
  const ticks = [];
  for (let k = Math.ceil(t0 / step); k * step <= t1 && ticks.length < 200; k++) {
    ticks.push({ t: k * step, text: tickText(k * step, step) });
  }
  return { ticks, step };
}
var TICK_UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"]
];
function tickText(t, step) {
  const [scale, unit] = TICK_UNITS.find(([k]) => Math.abs(t) >= k) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return t === 0 ? "0" : `${(t / scale).toFixed(decimals)} ${unit}`;
}
function layoutLanes(heights, collapsed, order, numPinned = 0) {
  const tops = new Float64Array(heights.length);
  const ends = new Float64Array(heights.length);
  const shown = new Uint16Array(heights.length);
  let total = 0;
  for (const l of order) {
    shown[l] = collapsed.has(l) ? 1 : heights[l];
    tops[l] = total;
    total += shown[l] * ROW_HEIGHT + 2 * LANE_PADDING;
    ends[l] = total;
  }
  return { order, tops, ends, shown, pinned: numPinned ? ends[order[numPinned - 1]] : 0, total };
}
function laneAtY(layout, y) {
  const { order, tops } = layout;
  if (y < 0 || y >= layout.total) return -1;
  let low = 0;
  let high = order.length - 1;
  while (low < high) {
    const mid = low + high + 1 >> 1;
    if (tops[order[mid]] <= y) low = mid;
    else high = mid - 1;
  }
  return order[low];
}
function rowTop(layout, lane, row) {
  return layout.tops[lane] + LANE_PADDING + row * ROW_HEIGHT;
}
function rowAtY(layout, y) {
  const lane = laneAtY(layout, y);
  if (lane < 0) return null;
  const row = Math.floor((y - layout.tops[lane] - LANE_PADDING) / ROW_HEIGHT);
  return row >= 0 && row < layout.shown[lane] ? { lane, row } : null;
}

// js/timeline/frame.js
var MAX_PINNED = 0.6;
function pinnedHeight({ size, layout }) {
  return layout.pinned <= MAX_PINNED * (size.height - HEAD_HEIGHT) ? layout.pinned : 0;
}
function layoutY(timeline, y) {
  return y - HEAD_HEIGHT < pinnedHeight(timeline) ? y - HEAD_HEIGHT : y - HEAD_HEIGHT + timeline.scroll;
}
function frameOf(timeline) {
  const { size, view, layout } = timeline;
  const width = size.width - size.gutter;
  const pixels = Math.max(1, Math.round(width * size.ratio));
  const w = (view[1] - view[0]) / pixels;
  const t0 = Math.round(view[0] / w) * w;
  const scale = pixels / size.ratio / (view[1] - view[0]);
  const pinned = pinnedHeight(timeline);
  const x = (t) => size.gutter + (t - t0) * scale;
  const down = (lane, at) => HEAD_HEIGHT + at - (layout.tops[lane] < pinned ? 0 : timeline.scroll);
  const y = (lane, row) => down(lane, rowTop(layout, lane, row));
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, parts: partsInView(timeline, pinned), x, y, down };
}
function partsInView({ layout, size, scroll }, pinned) {
  const { order, tops } = layout;
  const from = Math.min(scroll, Math.max(0, layout.total - 1)) + pinned;
  const to = scroll + size.height - HEAD_HEIGHT;
  const first = Math.max(0, order.indexOf(laneAtY(layout, from)));
  const last = laneAtY(layout, to);
  const lanes = order.slice(first, last < 0 ? order.length : order.indexOf(last) + 1);
  const free = { lanes: lanes.filter((l) => tops[l] >= pinned), top: HEAD_HEIGHT + pinned, bottom: size.height };
  if (!pinned) return [free];
  const fixed = { lanes: order.filter((l) => tops[l] < pinned), top: HEAD_HEIGHT, bottom: HEAD_HEIGHT + pinned };
  return [free, fixed];
}
function eventBox(timeline, frame, i) {
  const lane = timeline.data.lane[i];
  const row = timeline.rows.row[i];
  if (row >= timeline.layout.shown[lane]) return null;
  const x = frame.x(timeline.data.start[i]);
  return { x, y: Math.round(frame.y(lane, row)), width: Math.max(1, timeline.data.dur[i] * frame.scale) };
}

// css/theme.json
var theme_default = {
  comm_prefixes: ["nccl", "ncclDev", "rccl"],
  groups: [
    { key: "kernel", label: "Kernel", color: "#009e73", cats: ["kernel"] },
    { key: "comm", label: "Communication", color: "#d55e00", cats: [] },
    { key: "memory", label: "Copy, set", color: "#f0e442", cats: ["gpu_memcpy", "gpu_memset"] },
    { key: "runtime", label: "CUDA call", color: "#e69f00", cats: ["cuda_runtime", "cuda_driver", "privateuse1_runtime", "privateuse1_driver", "mtia_runtime", "xpu_runtime"] },
    { key: "op", label: "CPU op", color: "#56b4e9", cats: ["cpu_op"] },
    { key: "range", label: "Range", color: "#cc79a7", cats: ["user_annotation", "gpu_user_annotation"] },
    { key: "python", label: "Python", color: "#c0cad6", cats: ["python_function"] },
    { key: "sync", label: "Sync, overhead", color: "#0072b2", cats: ["cuda_sync", "overhead"] },
    { key: "other", label: "Other", color: "#6b6f76", cats: [] }
  ],
  light: {
    bg: "#ffffff",
    gutter: "#f6f8fa",
    text: "#1b1f24",
    muted: "#59636e",
    line: "#d0d7de",
    lineSoft: "#eaeef2",
    laneOdd: "#ffffff",
    band: "#0072b2",
    bandAlpha: 0.06,
    accent: "#0b62c4",
    rangeAlpha: 0.14,
    arrow: "#6e3c00",
    dim: "#d9dee4",
    tip: "#1b1f24",
    tipText: "#ffffff",
    field: "#ffffff",
    ink: "#000000",
    shades: [["#ffffff", 0], ["#ffffff", 0.14], ["#ffffff", 0.22], ["#000000", 0.08], ["#ffffff", 0.32]]
  },
  dark: {
    bg: "#111418",
    gutter: "#15191e",
    text: "#e6e9ed",
    muted: "#9aa5b1",
    line: "#343b44",
    lineSoft: "#242a31",
    laneOdd: "#111418",
    band: "#56b4e9",
    bandAlpha: 0.07,
    accent: "#6cb6ff",
    rangeAlpha: 0.18,
    arrow: "#ffd08a",
    dim: "#2b323a",
    tip: "#e6e9ed",
    tipText: "#111418",
    field: "#1b2026",
    ink: "#000000",
    shades: [["#000000", 0.06], ["#000000", 0.16], ["#000000", 0.24], ["#ffffff", 0.1], ["#ffffff", 0.2]]
  }
};

// js/shared/theme.js
var THEME = theme_default;
function groupOf(category, name) {
  const { groups } = THEME;
  const found = groups.findIndex((group) => group.cats.includes(category));
  if (found < 0) return groups.length - 1;
  const isComm = groups[found].key === "kernel" && THEME.comm_prefixes.some((prefix) => name.startsWith(prefix));
  return isComm ? groups.findIndex((group) => group.key === "comm") : found;
}
function nameHash(name) {
  let value = 2166136261;
  for (let i = 0; i < name.length; i++) value = Math.imul(value ^ name.charCodeAt(i), 16777619);
  return value >>> 0;
}
function rgbOf(color) {
  const [r, g, b] = [1, 3, 5].map((k) => Number.parseInt(color.slice(k, k + 2), 16));
  return [r, g, b];
}
function mixColors(color, toward, share) {
  const other = rgbOf(toward);
  const [r, g, b] = rgbOf(color).map((a, k) => Math.floor(a + (other[k] - a) * share + 0.5));
  return [r, g, b];
}
function luminance(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
var NUM_SHADES = THEME.light.shades.length;
function tonesOf(mode) {
  const shades = (
    /** @type {[string, number][]} */
    THEME[mode].shades
  );
  const all = THEME.groups.flatMap((group) => shades.map(([toward, share]) => mixColors(group.color, toward, share)));
  return {
    pixels: Uint32Array.from(all, ([r, g, b]) => (b << 16 | g << 8 | r) >>> 0),
    css: all.map((rgb) => `rgb(${rgb.join(",")})`),
    ink: all.map((rgb) => (luminance(rgb) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff")
  };
}

// js/timeline/lod.js
var FANOUT = 16;
var MAX_ROWS = 512;
var UNDRAWN = 65535;
var MAX_CUT = 0.02;
var MIN_ALPHA = 88;
var OPAQUE = 255 << 24 >>> 0;
var EDGE = 150 << 24 >>> 0;
function assignRows(data) {
  const { start, dur, n, header } = data;
  const row = new Uint16Array(n);
  const heights = [];
  const until = new Float64Array(MAX_ROWS);
  const last = new Int32Array(MAX_ROWS);
  const ends = /* @__PURE__ */ new Map();
  let i = 0;
  for (const lane of header.lanes) {
    let top = -1;
    let height = 0;
    until.fill(-Infinity);
    const firstInner = i + lane.enclosing;
    for (const stop = i + lane.count; i < stop; i++) {
      if (i < firstInner && i > firstInner - lane.enclosing) {
        row[i] = UNDRAWN;
        continue;
      }
      const s = start[i];
      const e = s + dur[i];
      while (top >= 0 && until[top] <= s) top--;
      let r = top;
      while (r >= 0 && !(until[r] > s && until[r] >= e)) r--;
      r++;
      while (r < MAX_ROWS && until[r] > s) {
        if (start[last[r]] < s && until[r] - s < MAX_CUT * (e - s)) {
          ends.set(last[r], s);
          break;
        }
        r++;
      }
      if (r >= MAX_ROWS) {
        row[i] = UNDRAWN;
        continue;
      }
      row[i] = r;
      until[r] = e;
      last[r] = i;
      if (e > s && r > top) top = r;
      if (r >= height) height = r + 1;
    }
    heights.push(Math.max(height, 1));
  }
  return { row, heights, ends };
}
function drawnEvent(data, rows, i) {
  let first = i;
  while (rows.row[first] === UNDRAWN && first > 0 && data.lane[first - 1] === data.lane[i]) first--;
  return rows.row[i] === UNDRAWN && rows.row[first] === 0 ? first : i;
}
function assignTones(data) {
  const { names, cats } = data.header;
  const byPair = /* @__PURE__ */ new Map();
  const tone = new Uint8Array(data.n);
  const shadeOf = new Int8Array(names.length).fill(-1);
  let lastKey = -1;
  let lastTone = 0;
  for (let i = 0; i < data.n; i++) {
    const key = data.name[i] * 65536 + data.cat[i];
    if (key !== lastKey) {
      let found = byPair.get(key);
      if (found === void 0) {
        const name = names[data.name[i]];
        if (shadeOf[data.name[i]] < 0) shadeOf[data.name[i]] = nameHash(name) % NUM_SHADES;
        found = groupOf(cats[data.cat[i]], name) * NUM_SHADES + shadeOf[data.name[i]];
        byPair.set(key, found);
      }
      lastKey = key;
      lastTone = found;
    }
    tone[i] = lastTone;
  }
  return tone;
}
function gatherRows(data, rows, tone, keep = null) {
  const { start, dur, lane, n } = data;
  const isOut = (i) => rows.row[i] === UNDRAWN || keep !== null && !keep[i];
  const laneRow = runningSums(rows.heights);
  const counts = new Uint32Array(laneRow[rows.heights.length]);
  for (let i = 0; i < n; i++) if (!isOut(i)) counts[laneRow[lane[i]] + rows.row[i]]++;
  const first = runningSums(counts);
  const m = first[first.length - 1];
  const index = {
    first,
    laneRow,
    at: new Uint32Array(m),
    s: new Float64Array(m),
    e: new Float64Array(m),
    sum: new Float64Array(m + 1),
    tone: new Uint8Array(m)
  };
  const next = first.slice();
  for (let i = 0; i < n; i++) {
    if (isOut(i)) continue;
    const p = next[laneRow[lane[i]] + rows.row[i]]++;
    index.at[p] = i;
    index.s[p] = start[i];
    index.e[p] = start[i] + dur[i];
    index.tone[p] = tone[i];
  }
  for (const [i, end] of rows.ends) if (!isOut(i)) index.e[placeIn(index, laneRow[lane[i]] + rows.row[i], i)] = end;
  for (let p = 0; p < m; p++) index.sum[p + 1] = index.sum[p] + index.e[p] - index.s[p];
  return { ...index, maxima: buildMaxima(index.s, index.e) };
}
function placeIn({ first, at }, r, i) {
  let low = first[r];
  let high = first[r + 1];
  while (low < high) {
    const mid = low + high >> 1;
    if (at[mid] < i) low = mid + 1;
    else high = mid;
  }
  return low;
}
function runningSums(counts) {
  const sums = new Uint32Array(counts.length + 1);
  for (let k = 0; k < counts.length; k++) sums[k + 1] = sums[k] + counts[k];
  return sums;
}
function buildMaxima(s, e) {
  const levels = [];
  let below = null;
  for (let size = s.length; size > FANOUT; ) {
    const num = Math.ceil(size / FANOUT);
    const level = new Uint32Array(num);
    for (let b = 0; b < num; b++) {
      let best = -1;
      let length = -1;
      for (let k = b * FANOUT; k < Math.min(size, (b + 1) * FANOUT); k++) {
        const p = below === null ? k : below[k];
        if (e[p] - s[p] > length) {
          length = e[p] - s[p];
          best = p;
        }
      }
      level[b] = best;
    }
    levels.push(level);
    below = level;
    size = num;
  }
  return levels;
}
function longestIn(index, from, to) {
  const { s, e, maxima } = index;
  let best = from;
  let length = e[from] - s[from];
  const look = (p) => {
    const other = e[p] - s[p];
    if (other > length || other === length && p < best) {
      length = other;
      best = p;
    }
  };
  let a = from;
  let b = to;
  for (let level = -1; a < b; level++) {
    const at = level < 0 ? null : maxima[level];
    const isLast = level + 1 >= maxima.length || b - a <= FANOUT;
    while (a < b && (isLast || a % FANOUT)) look(at === null ? a++ : at[a++]);
    while (b > a && b % FANOUT) look(at === null ? --b : at[--b]);
    a /= FANOUT;
    b /= FANOUT;
  }
  return best;
}
function placeAfter(s, from, to, t) {
  let step = 1;
  let low = from;
  while (low + step < to && s[low + step] < t) {
    low += step;
    step *= 2;
  }
  let high = Math.min(to, low + step);
  while (low < high) {
    const mid = low + high >> 1;
    if (s[mid] < t) low = mid + 1;
    else high = mid;
  }
  return low;
}
function placeAt(index, r, t) {
  const from = index.first[r];
  const p = placeAfter(index.s, from, index.first[r + 1], t);
  return p > from && index.e[p - 1] > t ? p - 1 : p;
}
function paintRow(index, r, { t0, w, out, base, width, minWidth }, pixels, wide) {
  const { s, e, sum, tone } = index;
  const end = index.first[r + 1];
  const scale = 1 / w;
  const t1 = t0 + width * w;
  let p = placeAt(index, r, t0);
  let x = 0;
  while (p < end && s[p] < t1 && x < width) {
    const from = (s[p] - t0) * scale;
    if (from > x) x = Math.floor(from);
    const tx = t0 + x * w;
    if (e[p] <= tx && s[p] < tx) {
      p++;
      continue;
    }
    if (s[p] <= tx && e[p] >= tx + w) {
      const to = (e[p] - t0) * scale;
      const stop = Math.min(width, Math.max(x + 1, Math.floor(to)));
      out.fill((pixels[tone[p]] | OPAQUE) >>> 0, base + x, base + stop);
      if (to - from >= minWidth) wide(p, from, to);
      if (to - from >= 4 && stop < width) out[base + stop - 1] = (pixels[tone[p]] | EDGE) >>> 0;
      x = stop;
      if (e[p] <= t0 + x * w) p++;
      continue;
    }
    const tq = tx + w;
    const q = placeAfter(s, p, end, tq);
    if (q === p) {
      x++;
      continue;
    }
    const clipped = Math.max(0, tx - s[p]) + Math.max(0, e[q - 1] - tq);
    const busy = (sum[q] - sum[p] - clipped) * scale;
    const best = q - p === 1 ? p : longestIn(index, p, q);
    const strength = MIN_ALPHA + (255 - MIN_ALPHA) * (busy > 1 ? 1 : busy);
    out[base + x] = (pixels[tone[best]] | Math.round(strength) << 24) >>> 0;
    x++;
    p = e[q - 1] > tq ? q - 1 : q;
  }
}
function addBusy(index, r, [t0, t1], out) {
  const { s, e, sum } = index;
  const w = (t1 - t0) / out.length;
  const end = index.first[r + 1];
  let p = placeAt(index, r, t0);
  for (let x = 0; x < out.length && p < end; x++) {
    const tx = t0 + x * w;
    const q = placeAfter(s, p, end, tx + w);
    if (q === p && !(s[p] < tx + w)) continue;
    const clipped = Math.max(0, tx - s[p]) + Math.max(0, e[q - 1] - tx - w);
    out[x] += Math.max(0, sum[q] - sum[p] - clipped) / w;
    p = q > p && e[q - 1] > tx + w ? q - 1 : q;
  }
}
function eventAt(index, r, t, slack) {
  const { s, e, first } = index;
  const p = placeAt(index, r, t);
  if (p < first[r + 1] && s[p] <= t && e[p] > t && e[p] - s[p] >= 2 * slack) return index.at[p];
  const from = placeAt(index, r, t - slack);
  const to = placeAfter(s, from, first[r + 1], t + slack);
  const last = to < first[r + 1] && s[to] <= t + slack ? to + 1 : to;
  return from < last ? index.at[longestIn(index, from, last)] : -1;
}

// js/timeline/overview.js
var KINDS = (
  /** @type {const} */
  ["device", "host"]
);
var MAX_OVERVIEW_ROWS = 400;
function overviewShares(timeline, num) {
  const shares = { device: new Float32Array(num), host: new Float32Array(num) };
  const most = { device: 0, host: 0 };
  timeline.data.header.lanes.forEach((lane, l) => {
    for (let r = timeline.index.laneRow[l]; r < Math.min(timeline.index.laneRow[l + 1], MAX_OVERVIEW_ROWS); r++) {
      addBusy(timeline.index, r, timeline.whole, shares[lane.kind]);
    }
  });
  for (const kind of KINDS) {
    for (const share of shares[kind]) if (share > most[kind]) most[kind] = share;
    if (most[kind] > 0) for (let x = 0; x < num; x++) shares[kind][x] /= most[kind];
  }
  return { shares, most };
}
function renderOverview(timeline, width) {
  const picture = document.createElement("canvas");
  const num = Math.max(1, Math.round(width * timeline.size.ratio));
  picture.width = num;
  picture.height = Math.round((OVERVIEW_HEIGHT - 6) * timeline.size.ratio);
  const context = contextOf(picture);
  const { shares, most } = overviewShares(timeline, num);
  const kinds = KINDS.filter((kind) => most[kind] > 0);
  const height = picture.height / Math.max(kinds.length, 1);
  kinds.forEach((kind, k) => {
    context.fillStyle = timeline.tones.css[kind === "device" ? 0 : timeline.hostTone];
    for (let x = 0; x < num; x++) {
      const tall = shares[kind][x] * (height - 1);
      if (tall > 0) context.fillRect(x, (k + 1) * height - Math.max(1, tall), 1, Math.max(1, tall));
    }
  });
  return picture;
}
function overviewX(timeline, t) {
  const { gutter, width } = timeline.size;
  return gutter + (t - timeline.whole[0]) / (timeline.whole[1] - timeline.whole[0]) * (width - gutter);
}
function overviewTime(timeline, x) {
  const { gutter, width } = timeline.size;
  return timeline.whole[0] + (x - gutter) / (width - gutter) * (timeline.whole[1] - timeline.whole[0]);
}
function paintOverview(context, timeline, { width, t0, t1 }) {
  const { gutter, ratio } = timeline.size;
  const key = `${width} ${ratio} ${timeline.mode}`;
  if (timeline.overview?.key !== key) timeline.overview = { key, picture: renderOverview(timeline, width) };
  context.fillStyle = timeline.colors.gutter;
  context.fillRect(gutter, 0, width, OVERVIEW_HEIGHT);
  context.drawImage(timeline.overview.picture, gutter, 3, width, OVERVIEW_HEIGHT - 6);
  const left = Math.max(gutter, overviewX(timeline, t0));
  const right = Math.min(gutter + width, overviewX(timeline, t1));
  context.fillStyle = timeline.colors.bg;
  context.globalAlpha = 0.65;
  context.fillRect(gutter, 0, left - gutter, OVERVIEW_HEIGHT);
  context.fillRect(right, 0, gutter + width - right, OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = timeline.colors.muted;
  context.lineWidth = 1;
  const slim = Math.max(3, right - left);
  context.strokeRect(Math.min(left, gutter + width - slim) + 0.5, 0.5, slim - 1, OVERVIEW_HEIGHT - 1);
}

// js/timeline/arrows.js
var MAX_ARROWS = 80;
function launchIndex(data) {
  const first = new Uint32Array(data.n + 1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) first[data.launch[i] + 1]++;
  for (let i = 0; i < data.n; i++) first[i + 1] += first[i];
  const work = new Uint32Array(first[data.n]);
  const next = first.slice(0, -1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) work[next[data.launch[i]]++] = i;
  return { first, work };
}
function launchesOf(timeline, i, most = MAX_ARROWS) {
  if (timeline.data.launch[i] >= 0) return [i];
  const { first, work } = timeline.launches;
  return [...work.subarray(first[i], Math.min(first[i + 1], first[i] + most))];
}
function paintArrows(context, timeline, frame) {
  const strong = /* @__PURE__ */ new Set();
  for (const i of [timeline.hover, timeline.focused, timeline.selected]) {
    if (i !== null) for (const work of launchesOf(timeline, i)) strong.add(work);
  }
  context.globalAlpha = 0.45;
  for (const i of fewInView(timeline, frame)) {
    const from = timeline.data.start[timeline.data.launch[i]];
    if (!strong.has(i) && from >= frame.t0 && from <= frame.t1) paintArrow(context, timeline, frame, i, 1);
  }
  context.globalAlpha = 1;
  for (const i of strong) paintArrow(context, timeline, frame, i, 1.8);
}
function fewInView(timeline, frame) {
  const { index, data } = timeline;
  const found = [];
  let seen = 0;
  for (const l of frame.parts.flatMap(({ lanes }) => lanes)) {
    if (data.header.lanes[l].kind !== "device") continue;
    for (let row = 0; row < timeline.layout.shown[l]; row++) {
      const r = index.laneRow[l] + row;
      for (let p = placeAt(index, r, frame.t0); p < index.first[r + 1] && index.s[p] < frame.t1; p++) {
        if (seen++ > 4 * MAX_ARROWS) return [];
        if (data.launch[index.at[p]] >= 0 && found.push(index.at[p]) > MAX_ARROWS) return [];
      }
    }
  }
  return found;
}
function paintArrow(context, timeline, frame, i, width) {
  const from = eventBox(timeline, frame, timeline.data.launch[i]) ?? parentBox(timeline, frame, timeline.data.launch[i]);
  const to = eventBox(timeline, frame, i);
  if (from === null || to === null) return;
  const isDown = to.y > from.y;
  const x0 = from.x + Math.min(from.width / 2, 12);
  const y0 = from.y + (isDown ? ROW_HEIGHT - 1 : 0);
  const y1 = to.y + (isDown ? 0 : ROW_HEIGHT - 1);
  const bend = Math.min(60, Math.abs(y1 - y0) / 2 + 8) * (isDown ? 1 : -1);
  context.strokeStyle = timeline.colors.arrow;
  context.fillStyle = timeline.colors.arrow;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x0, y0);
  context.bezierCurveTo(x0, y0 + bend, to.x, y1 - bend, to.x, y1);
  context.stroke();
  const tip = isDown ? -6 : 6;
  context.beginPath();
  context.moveTo(to.x, y1);
  context.lineTo(to.x - 3.5, y1 + tip);
  context.lineTo(to.x + 3.5, y1 + tip);
  context.fill();
}
function parentBox(timeline, frame, i) {
  let up = i;
  while (up >= 0 && timeline.rows.row[up] >= timeline.layout.shown[timeline.data.lane[up]])
    up = timeline.data.parent[up];
  const box = up < 0 ? null : eventBox(timeline, frame, up);
  return box && { x: frame.x(timeline.data.start[i]), y: box.y, width: 1 };
}

// js/timeline/painter.js
function createPainter(canvas, data) {
  const stripCanvas = document.createElement("canvas");
  return {
    canvas,
    context: contextOf(canvas, { alpha: false }),
    stripCanvas,
    stripContext: contextOf(stripCanvas),
    strip: null,
    labels: new Array(data.header.names.length)
  };
}
function stripOf(painter, width, height) {
  const { stripCanvas, stripContext } = painter;
  if (painter.strip === null || stripCanvas.width < width || stripCanvas.height < height) {
    stripCanvas.width = width;
    stripCanvas.height = Math.max(height, stripCanvas.height);
    const image = stripContext.createImageData(width, stripCanvas.height);
    painter.strip = { image, pixels: new Uint32Array(image.data.buffer) };
  }
  return painter.strip;
}

// js/timeline/races.js
var RACE_RED = "#e5484d";
function raceMarks(data) {
  const first = [0];
  for (const lane of data.header.lanes) first.push(first[first.length - 1] + lane.count);
  return (data.header.races ?? []).map((mark) => ({ ...mark, event: eventOfMark(data, mark, first) }));
}
function eventOfMark(data, { lane, at, dur }, first) {
  if (lane < 0) return -1;
  for (let i = first[lane]; i < first[lane + 1]; i++) if (data.start[i] === at && data.dur[i] === dur) return i;
  return -1;
}
function paintRaceFlags(context, timeline, { x, t0, t1 }) {
  context.fillStyle = RACE_RED;
  for (const { at } of timeline.races) {
    if (at < t0 || at > t1) continue;
    const left = Math.round(x(at));
    context.fillRect(left, HEAD_HEIGHT - 14, 1.5, 14);
    context.beginPath();
    context.moveTo(left, HEAD_HEIGHT - 14);
    context.lineTo(left + 9, HEAD_HEIGHT - 10.5);
    context.lineTo(left, HEAD_HEIGHT - 7);
    context.fill();
  }
}

// js/timeline/syncs.js
var SYNC_ORANGE = "#d55e00";
var SYNC_TICK = 8;
function syncMarks(data) {
  const marks = data.header.syncs ?? [];
  if (!marks.length) return [];
  const first = [0];
  for (const lane of data.header.lanes) first.push(first[first.length - 1] + lane.count);
  const wanted = new Map(marks.map((mark) => [`${mark.lane} ${mark.at} ${mark.dur}`, -1]));
  for (const lane of new Set(marks.map((mark) => mark.lane))) {
    for (let i = first[lane]; i < first[lane + 1]; i++) {
      const key = `${lane} ${data.start[i]} ${data.dur[i]}`;
      if (wanted.has(key)) wanted.set(key, i);
    }
  }
  return marks.map((mark) => ({ ...mark, event: wanted.get(`${mark.lane} ${mark.at} ${mark.dur}`) ?? -1 }));
}
function paintSyncTicks(context, timeline, { x, t0, t1 }) {
  context.fillStyle = SYNC_ORANGE;
  for (const { at, dur } of timeline.syncs) {
    if (at + dur < t0 || at > t1) continue;
    const left = Math.round(x(at));
    context.fillRect(left, HEAD_HEIGHT - SYNC_TICK / 2, Math.max(1.5, x(at + dur) - left), SYNC_TICK / 2);
  }
}

// js/timeline/state.js
var MAX_STEPS = 4e3;
function createState(root, data, options) {
  const rows = assignRows(data);
  const tone = assignTones(data);
  const whole = fitWindow(timelineExtent(data, true));
  const index = gatherRows(data, rows, tone);
  const dom = buildDom(root);
  const collapsed = new Set(data.header.lanes.flatMap((lane, k) => lane.is_idle ? [k] : []));
  const order = data.header.lanes.map((_, l) => l);
  return {
    data,
    options,
    dom,
    painter: createPainter(dom.canvas, data),
    rows,
    tone,
    hostTone: hostTone(data, index),
    whole,
    extent: timelineExtent(data),
    view: [...whole],
    index,
    launches: launchIndex(data),
    collapsed,
    order,
    pinned: /* @__PURE__ */ new Set(),
    filters: /* @__PURE__ */ new Map(),
    lanesPanel: null,
    layout: layoutLanes(rows.heights, collapsed, order),
    steps: stepRanges(data),
    races: raceMarks(data),
    syncs: syncMarks(data),
    chosen: null,
    names: null,
    search: null,
    range: null,
    selected: null,
    focused: null,
    hover: null,
    hasFocus: false,
    focusLane: -1,
    isArmed: false,
    drag: null,
    held: /* @__PURE__ */ new Set(),
    pointerX: null,
    scroll: 0,
    size: { width: 0, height: 0, gutter: 150, ratio: 1 },
    ...paletteOf(options.theme ?? "light"),
    overview: null,
    lowerNames: null,
    script: [],
    pending: 0,
    beforeFrame: null,
    isGone: false,
    isReleased: false,
    cleanups: []
  };
}
function paletteOf(mode) {
  const colors = THEME[mode];
  const tones = tonesOf(mode);
  const dim = Number.parseInt(colors.dim.slice(1), 16);
  const packed = ((dim & 255) << 16 | dim & 65280 | dim >> 16) >>> 0;
  return { mode, colors, tones, dimPixels: new Uint32Array(tones.pixels.length).fill(packed) };
}
function listen(timeline, node, type, handler, options) {
  node.addEventListener(type, handler, options);
  timeline.cleanups.push(() => node.removeEventListener(type, handler, options));
}
function hostTone({ header }, { first, laneRow, tone }) {
  const lane = header.lanes.findIndex(({ kind, count }) => kind === "host" && count > 0);
  return lane < 0 ? 0 : tone[first[laneRow[lane]]];
}
function stepRanges(data) {
  const isStep = new Set(data.header.step_names);
  const steps = [];
  if (!isStep.size) return steps;
  for (let i = 0; i < data.n; i++) {
    if (isStep.has(data.name[i]) && data.header.lanes[data.lane[i]].kind === "host") {
      steps.push({ t0: data.start[i], t1: data.start[i] + data.dur[i] });
    }
  }
  return steps.length > MAX_STEPS ? [] : steps.sort((a, b) => a.t0 - b.t0);
}

// js/timeline/input.js
var CLICK_PX = 4;
var CURSORS = { gutter: "pointer", ruler: "col-resize", overview: "ew-resize" };
function pointOf(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
function zoneOf(timeline, x, y) {
  if (x < timeline.size.gutter) return y < HEAD_HEIGHT ? "corner" : "gutter";
  if (y < OVERVIEW_HEIGHT) return "overview";
  return y < HEAD_HEIGHT ? "ruler" : "plot";
}
function listenToPointer(timeline, act) {
  const { canvas } = timeline.dom;
  const at = (event) => pointOf(canvas, event);
  listen(timeline, canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    const zone = zoneOf(timeline, x, y);
    timeline.isArmed = true;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const kind = zone === "ruler" || zone === "plot" && event.shiftKey ? "range" : zone;
    timeline.drag = {
      kind,
      x,
      y,
      view: [...timeline.view],
      scroll: timeline.scroll,
      moved: false,
      from: act.timeAt(x)
    };
    if (kind === "overview") act.centre(overviewTime(timeline, x));
  });
  listen(timeline, canvas, "pointermove", (event) => {
    const [x, y] = at(event);
    if (timeline.drag === null) {
      const zone = zoneOf(timeline, x, y);
      canvas.style.cursor = CURSORS[zone] ?? "default";
      if (zone === "plot") act.hover(x, y);
      else act.leave();
    } else dragTo(timeline, act, x, y);
  });
  listen(timeline, canvas, "pointerup", (event) => {
    const [x, y] = at(event);
    const { drag } = timeline;
    timeline.drag = null;
    canvas.style.cursor = "default";
    if (drag === null) return;
    if (drag.kind === "range" && drag.moved) act.finishRange();
    else if (drag.kind === "gutter") drag.moved ? act.dropLane(drag.y, y) : act.toggleLane(y);
    else if (!drag.moved && drag.kind === "range" && !act.measureTo(x, y)) act.clearRange();
    else if (!drag.moved && drag.kind === "plot") act.click(x, y);
  });
  listen(timeline, canvas, "pointercancel", () => {
    timeline.drag = null;
  });
  listen(timeline, canvas, "pointerleave", () => {
    timeline.isArmed = timeline.drag !== null;
    act.leave();
  });
  listen(timeline, canvas, "dblclick", (event) => {
    const [x, y] = at(event);
    if (zoneOf(timeline, x, y) === "plot") act.zoomToEventAt(x, y);
    else if (zoneOf(timeline, x, y) !== "gutter") act.fit();
  });
  listen(timeline, canvas, "wheel", (event) => wheel(timeline, act, event, at(event)), { passive: false });
}
function dragTo(timeline, act, x, y) {
  const { drag } = timeline;
  if (drag === null) return;
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < CLICK_PX) return;
  drag.moved = true;
  if (drag.kind === "plot") {
    timeline.dom.canvas.style.cursor = "grabbing";
    const perPx = (drag.view[1] - drag.view[0]) / (timeline.size.width - timeline.size.gutter);
    const by = (x - drag.x) * perPx;
    act.show([drag.view[0] - by, drag.view[1] - by]);
    timeline.dom.frame.scrollTop = drag.scroll - (y - drag.y);
  } else if (drag.kind === "range") {
    act.dragRange(drag.from, act.timeAt(Math.min(Math.max(x, timeline.size.gutter), timeline.size.width)));
  } else if (drag.kind === "overview") act.centre(overviewTime(timeline, x));
}
function wheel(timeline, act, event, [x]) {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  const isZoom = event.ctrlKey || event.metaKey;
  if (!isZoom && !timeline.isArmed) return;
  event.preventDefault();
  const sideways = event.shiftKey && dx === 0 ? dy : dx;
  if (!isZoom && (event.shiftKey || Math.abs(dx) > Math.abs(dy))) act.pan(sideways);
  else act.zoom(Math.exp(Math.min(Math.max(dy, -200), 200) * (isZoom && Math.abs(dy) < 30 ? 0.01 : 22e-4)), x);
}
var MOTION_KEYS = { w: [1, 0], s: [-1, 0], a: [0, -1], d: [0, 1] };
var ARROW_KEYS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
function listenToKeys(timeline, act) {
  const { canvas, search } = timeline.dom;
  listen(timeline, canvas, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressed(timeline, act, event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  listen(timeline, canvas, "keyup", (event) => timeline.held.delete(event.key.toLowerCase()));
  listen(timeline, canvas, "focus", () => act.focusChanged(true));
  listen(timeline, canvas, "blur", () => {
    timeline.held.clear();
    timeline.isArmed = false;
    act.focusChanged(false);
  });
  listen(timeline, search, "input", () => act.search(search.value));
  listen(timeline, search, "keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Enter") act.nextMatch(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") {
      search.value = "";
      act.search("");
      canvas.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  });
}
function pressed(timeline, act, event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in MOTION_KEYS) act.hold(key);
  else if (key in ARROW_KEYS) act.arrow(ARROW_KEYS[key]);
  else if (key === "Enter" || key === " ") act.enter();
  else if (key === "f") act.fit();
  else if (key === "z") act.zoomToFocused();
  else if (key === "l") act.follow();
  else if (key === "c") act.toggleFocusLane();
  else if (key === "p") act.pinFocusLane();
  else if (key === "/") timeline.dom.search.select();
  else if (key === "n") act.nextMatch(event.shiftKey ? -1 : 1);
  else if (key === "+" || key === "=") act.zoom(0.7, null);
  else if (key === "-") act.zoom(1 / 0.7, null);
  else if (key === "Home" || key === "End") act.toEnd(key === "End");
  else if (key === "PageUp" || key === "PageDown")
    timeline.dom.frame.scrollBy(0, (key === "PageUp" ? -0.8 : 0.8) * timeline.size.height);
  else if (key === "Escape") return act.escape();
  else return false;
  return true;
}
function heldMotion(held) {
  const sum = (
    /** @type {[number, number]} */
    [0, 0]
  );
  for (const key of held) {
    sum[0] += MOTION_KEYS[key][0];
    sum[1] += MOTION_KEYS[key][1];
  }
  return sum;
}

// js/timeline/axes.js
function paintRuler(context, timeline, frame) {
  const { x, t0, t1, width } = frame;
  const { gutter } = timeline.size;
  const { ticks } = rulerTicks(t0, t1, width);
  context.fillStyle = timeline.colors.line;
  context.fillRect(gutter, HEAD_HEIGHT - 1, width, 1);
  context.textAlign = "left";
  for (const { t, text } of ticks) {
    const at = Math.round(x(t));
    context.fillStyle = timeline.colors.line;
    context.fillRect(at, HEAD_HEIGHT - 8, 1, 8);
    context.fillStyle = timeline.colors.muted;
    if (at + 60 < timeline.size.width) context.fillText(text, at + 4, OVERVIEW_HEIGHT + RULER_HEIGHT / 2);
  }
  const { range } = timeline;
  if (range !== null && range[1] > t0 && range[0] < t1) paintRangeText(context, timeline, range, frame);
}
function paintRangeText(context, timeline, range, { x, width }) {
  const { gutter } = timeline.size;
  const text = formatDuration(range[1] - range[0]);
  const room = context.measureText(text).width + 12;
  const middle = (x(range[0]) + x(range[1])) / 2;
  const left = Math.min(Math.max(middle - room / 2, gutter), gutter + width - room);
  context.fillStyle = timeline.colors.tip;
  context.fillRect(left, OVERVIEW_HEIGHT + 3, room, RULER_HEIGHT - 6);
  context.fillStyle = timeline.colors.tipText;
  context.fillText(text, left + 6, OVERVIEW_HEIGHT + RULER_HEIGHT / 2);
}
function paintGutter(context, timeline, frame) {
  const { gutter, height } = timeline.size;
  context.fillStyle = timeline.colors.gutter;
  context.fillRect(0, 0, gutter, height);
  context.textAlign = "left";
  for (const part of frame.parts) {
    context.save();
    context.beginPath();
    context.rect(0, part.top, gutter - 1, part.bottom - part.top);
    context.clip();
    paintLaneLines(context, timeline, frame, part, 0);
    for (const l of part.lanes) paintLaneLabel(context, timeline, frame, part, l);
    context.restore();
  }
  context.fillStyle = timeline.colors.line;
  context.fillRect(gutter - 1, 0, 1, height);
  context.fillRect(0, HEAD_HEIGHT - 1, gutter, 1);
  for (const { bottom } of frame.parts.slice(1)) context.fillRect(0, bottom - 2, timeline.size.width, 2);
}
function paintLaneLabel(context, timeline, frame, part, l) {
  const { layout, colors, size } = timeline;
  const isTall = timeline.rows.heights[l] > 1;
  const edge = ROW_HEIGHT / 2 + 4;
  const low = frame.down(l, layout.tops[l]) + edge;
  const high = frame.down(l, layout.ends[l]) - edge;
  const y = Math.round(Math.min(Math.max(low, part.top + edge), high));
  context.fillStyle = colors.muted;
  if (isTall) paintTriangle(context, 12, y, timeline.collapsed.has(l));
  context.fillStyle = l === timeline.focusLane && timeline.hasFocus ? colors.accent : colors.text;
  context.fillText(cutToWidth(context, labelOf(timeline, l), size.gutter - 32), 22, y);
}
function labelOf({ data, filters }, l) {
  const { label } = data.header.lanes[l];
  return filters.has(l) ? `${label} (${filters.get(l)?.text})` : label;
}
function paintTriangle(context, x, y, isClosed) {
  const points = isClosed ? [
    [-2.5, -4],
    [3, 0],
    [-2.5, 4]
  ] : [
    [-4, -2.5],
    [4, -2.5],
    [0, 3]
  ];
  context.beginPath();
  for (const [dx, dy] of points) context.lineTo(x + dx, y + dy);
  context.fill();
}
function cutToWidth(context, text, room) {
  let shown = text.slice(0, 100);
  if (shown === text && context.measureText(shown).width <= room) return shown;
  while (shown.length > 1 && context.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
  return `${shown}…`;
}
function paintLaneLines(context, timeline, { down }, { lanes }, left) {
  context.fillStyle = timeline.colors.lineSoft;
  for (const l of lanes) {
    context.fillRect(left, Math.round(down(l, timeline.layout.ends[l])) - 1, timeline.size.width - left, 1);
  }
}

// js/timeline/words.js
function tipLines({ data, races }, i) {
  const { names, cats, lanes } = data.header;
  const isSelf = lanes[data.lane[i]].kind === "host" && data.self[i] !== data.dur[i];
  const self = isSelf ? `, self ${formatDuration(data.self[i])}` : "";
  const lines = [names[data.name[i]].slice(0, 400) || "(no name)"];
  const enclosing = enclosingText(data, i);
  const innermost = data.name[i + lanes[data.lane[i]].enclosing - 1];
  if (enclosing) lines.push(`${enclosing}, the innermost: ${names[innermost].slice(0, 200)}`);
  lines.push(data.flags[i] & EVENT_FLAGS.instant ? "instant" : `${formatDuration(data.dur[i])}${self}`);
  lines.push(`${cats[data.cat[i]] || "no category"} · at ${exactTime(data.start[i])}`);
  const by = data.launch[i];
  if (by >= 0) {
    const name = names[data.name[by]].slice(0, 100);
    lines.push(`launched by ${name}, ${formatDuration(data.start[i] - data.start[by])} earlier`);
  }
  const race = races.find(({ event }) => event === i);
  if (race) lines.push(`race: ${race.title}`);
  return lines;
}
function enclosingText(data, i) {
  const { enclosing } = data.header.lanes[data.lane[i]];
  const isFirst = i === 0 || data.lane[i - 1] !== data.lane[i];
  return enclosing > 1 && isFirst ? `${enclosing} enclosing frames` : void 0;
}
function describeEvent(data, i) {
  const { names, cats, lanes } = data.header;
  const parts = [names[data.name[i]].slice(0, 200) || "no name", cats[data.cat[i]] || "no category"];
  parts.push(data.flags[i] & EVENT_FLAGS.instant ? "an instant" : `lasts ${formatDuration(data.dur[i])}`);
  parts.push(`starts at ${formatDuration(data.start[i])}`, `on ${lanes[data.lane[i]].label}`);
  if (data.launch[i] >= 0) parts.push(`launched by ${names[data.name[data.launch[i]]].slice(0, 100)}`);
  return parts.join(", ");
}
function blockLabel(name) {
  const short = name.slice(0, 300).replace(/^void /, "").replaceAll("(anonymous namespace)::", "").replaceAll("at::native::", "");
  return short || name.slice(0, 300);
}
function shortLabel(label) {
  return label.replace(
    /^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /,
    ""
  ) || label;
}
var EXACT_UNITS = [
  [1e9, "s", 9],
  [1e6, "ms", 6],
  [1e3, "µs", 3]
];
function exactTime(t) {
  const [scale, unit, decimals] = EXACT_UNITS.find(([k]) => Math.abs(t) >= k) ?? [1, "ns", 0];
  return `${(t / scale).toFixed(decimals)} ${unit}`;
}

// js/timeline/draw.js
var FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
var MIN_TEXT_PX = 28;
function paintFrame(timeline) {
  const { painter, size, colors } = timeline;
  const context = painter.context;
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.font = FONT;
  context.textBaseline = "middle";
  context.fillStyle = colors.bg;
  context.fillRect(0, 0, size.width, size.height);
  const frame = frameOf(timeline);
  for (const part of frame.parts) paintPart(context, timeline, frame, part);
  paintRange(context, timeline, frame);
  paintRuler(context, timeline, frame);
  paintSyncTicks(context, timeline, frame);
  paintRaceFlags(context, timeline, frame);
  paintOverview(context, timeline, frame);
  paintGutter(context, timeline, frame);
}
function paintPart(context, timeline, frame, part) {
  const { gutter } = timeline.size;
  context.save();
  context.beginPath();
  context.rect(gutter, part.top, frame.width, part.bottom - part.top);
  context.clip();
  paintBands(context, timeline, frame);
  paintLaneLines(context, timeline, frame, part, gutter);
  paintBlocks(context, timeline, frame, part);
  paintMarks(context, timeline, frame);
  paintArrows(context, timeline, frame);
  context.restore();
}
function paintBands(context, timeline, { x, t0, t1 }) {
  context.fillStyle = timeline.colors.band;
  context.globalAlpha = timeline.colors.bandAlpha;
  timeline.steps.forEach((step, k) => {
    if (k % 2 === 0 && step.t1 > t0 && step.t0 < t1)
      context.fillRect(x(step.t0), HEAD_HEIGHT, Math.max(1, x(step.t1) - x(step.t0)), timeline.size.height);
  });
  context.globalAlpha = 1;
}
function paintBlocks(context, timeline, frame, part) {
  const { painter, size } = timeline;
  const rows = visibleRows(timeline, frame, part);
  if (!rows.length) return;
  const { pixels: width } = frame;
  const { image, pixels } = stripOf(painter, width, rows.length);
  pixels.fill(0, 0, image.width * rows.length);
  const texts = rows.flatMap(({ lane, row }, k) => paintOneRow(timeline, frame, lane, row, pixels, k * image.width));
  painter.stripContext.putImageData(image, 0, 0, 0, 0, width, rows.length);
  context.imageSmoothingEnabled = false;
  const [left, wide] = [size.gutter, width / size.ratio];
  rows.forEach(({ lane, row }, k) => {
    const top = Math.round(frame.y(lane, row));
    context.drawImage(painter.stripCanvas, 0, k, width, 1, left, top, wide, ROW_HEIGHT - 1);
  });
  paintTexts(context, timeline, frame, texts);
}
function visibleRows(timeline, { y }, { lanes, top, bottom }) {
  const rows = [];
  for (const lane of lanes) {
    for (let row = 0; row < timeline.layout.shown[lane]; row++) {
      const at = y(lane, row);
      if (at > top - ROW_HEIGHT && at < bottom) rows.push({ lane, row });
    }
  }
  return rows;
}
function paintOneRow(timeline, frame, lane, row, pixels, base) {
  const { index, chosen, tones } = timeline;
  const minWidth = MIN_TEXT_PX * timeline.size.ratio;
  const y = frame.y(lane, row);
  const target = { t0: frame.t0, w: frame.w, width: frame.pixels, out: pixels, base, minWidth };
  const texts = [];
  const paint = (source, colors, skip) => paintRow(source, index.laneRow[lane] + row, target, colors, (p, x0, x1) => {
    if (skip?.[source.at[p]]) return;
    texts.push({ i: source.at[p], tone: source.tone[p], x0, x1, y, isDim: skip !== null });
  });
  if (chosen === null) paint(index, tones.pixels, null);
  else {
    paint(index, timeline.dimPixels, chosen.keep);
    paint(chosen.index, tones.pixels, null);
  }
  return texts;
}
function paintTexts(context, timeline, frame, texts) {
  const { ratio, gutter } = timeline.size;
  context.textAlign = "left";
  for (const { i, tone, x0, x1, y, isDim } of texts) {
    const left = Math.max(0, x0) / ratio;
    const room = Math.min(frame.width, x1 / ratio) - left - 8;
    const text = enclosingText(timeline.data, i) ?? fittedText(context, timeline, timeline.data.name[i], room);
    if (!text) continue;
    context.fillStyle = isDim ? timeline.colors.muted : timeline.tones.ink[tone];
    context.fillText(text, Math.round(gutter + left + 4), Math.round(y) + ROW_HEIGHT / 2);
  }
}
function fittedText(context, timeline, name, room) {
  const { labels } = timeline.painter;
  const label = labels[name] ?? measuredLabel(context, timeline.data.header, name);
  labels[name] = label;
  if (label.width <= room) return label.text;
  if (label.shortWidth <= room) return label.short;
  let letters = Math.floor(label.short.length * room / label.shortWidth);
  while (letters >= 2 && cutWidth(context, label, letters) > room) letters--;
  return letters < 2 ? "" : `${label.short.slice(0, letters)}…`;
}
function cutWidth(context, label, letters) {
  label.cuts[letters] ??= context.measureText(`${label.short.slice(0, letters)}…`).width;
  return label.cuts[letters];
}
function measuredLabel(context, header, name) {
  const brief = header.short[name];
  const text = brief ?? blockLabel(header.names[name]);
  const short = brief ?? shortLabel(text);
  return {
    text,
    short,
    cuts: [],
    width: context.measureText(text).width,
    shortWidth: context.measureText(short).width
  };
}
function paintMarks(context, timeline, frame) {
  for (const { event } of timeline.syncs) if (event >= 0) outline(context, timeline, frame, event, SYNC_ORANGE, 1.5);
  for (const { event } of timeline.races) if (event >= 0) outline(context, timeline, frame, event, RACE_RED, 2.5);
  if (timeline.hover !== null && timeline.hover !== timeline.selected)
    outline(context, timeline, frame, timeline.hover, timeline.colors.text, 1);
  if (timeline.selected !== null) outline(context, timeline, frame, timeline.selected, timeline.colors.accent, 2.5);
  if (timeline.focused !== null && timeline.focused !== timeline.selected && timeline.hasFocus)
    outline(context, timeline, frame, timeline.focused, timeline.colors.text, 2, [4, 2]);
}
function outline(context, timeline, frame, i, color, width, dash = []) {
  const box = eventBox(timeline, frame, i);
  if (box === null) return;
  context.strokeStyle = color;
  context.lineWidth = width;
  context.setLineDash(dash);
  const left = Math.max(box.x, timeline.size.gutter - 4);
  context.strokeRect(
    left,
    box.y,
    Math.max(2, Math.min(box.x + box.width, timeline.size.width + 4) - left),
    ROW_HEIGHT - 1
  );
  context.setLineDash([]);
}
function paintRange(context, timeline, { x, width }) {
  if (timeline.range === null) return;
  const { gutter, height } = timeline.size;
  const clip = (value) => Math.min(Math.max(value, gutter), gutter + width);
  const [left, right] = timeline.range.map((t) => clip(x(t)));
  if (right <= gutter || left >= gutter + width) return;
  context.fillStyle = timeline.colors.accent;
  context.globalAlpha = timeline.colors.rangeAlpha;
  context.fillRect(left, OVERVIEW_HEIGHT, right - left, height - OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  if (left > gutter) context.fillRect(left - 0.5, OVERVIEW_HEIGHT, 1, height);
  if (right < gutter + width) context.fillRect(right - 0.5, OVERVIEW_HEIGHT, 1, height);
}
function legendEntries(timeline) {
  const seen = new Uint8Array(THEME.groups.length);
  for (const tone of timeline.index.tone) seen[tone / NUM_SHADES | 0] = 1;
  return THEME.groups.flatMap((group, k) => seen[k] ? [[group.label, timeline.tones.css[k * NUM_SHADES]]] : []);
}

// js/timeline/moves.js
var MAX_FRAME_TIMES = 2e3;
function measure(timeline) {
  if (timeline.isReleased) return;
  const { frame, stage, canvas } = timeline.dom;
  const width = Math.max(1, frame.clientWidth);
  const height = Math.max(HEAD_HEIGHT + ROW_HEIGHT, frame.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  stage.style.height = `${Math.max(height, Math.ceil(timeline.layout.total + HEAD_HEIGHT))}px`;
  const { size } = timeline;
  if (size.width !== width || size.height !== height || size.ratio !== ratio) {
    timeline.size = {
      width,
      height,
      ratio,
      gutter: Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35))
    };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    paintNow(timeline);
  } else askFrame(timeline);
}
function setNear(timeline, isNear) {
  if (timeline.isReleased !== isNear) return;
  timeline.isReleased = !isNear;
  if (isNear) {
    timeline.size = { ...timeline.size, width: 0 };
    measure(timeline);
    return;
  }
  const { canvas } = timeline.dom;
  for (const one of [canvas, timeline.painter.stripCanvas]) one.width = one.height = 0;
  timeline.painter.strip = null;
  timeline.overview = null;
}
function paintNow(timeline) {
  if (timeline.isReleased) return;
  const began = performance.now();
  timeline.scroll = timeline.dom.frame.scrollTop;
  paintFrame(timeline);
  timeline.script.push(performance.now() - began);
  if (timeline.script.length > MAX_FRAME_TIMES) timeline.script.splice(0, MAX_FRAME_TIMES / 2);
}
function askFrame(timeline) {
  if (timeline.pending || timeline.isGone) return;
  timeline.pending = requestAnimationFrame((now) => {
    timeline.pending = 0;
    if (timeline.isGone) return;
    timeline.beforeFrame?.(now);
    paintNow(timeline);
  });
}
function moveTo(timeline, view) {
  const next = clampWindow(view, timeline.extent);
  if (next[0] === timeline.view[0] && next[1] === timeline.view[1]) return;
  timeline.view = next;
  timeline.options.onTime?.([...next]);
  askFrame(timeline);
}
function glideTo(timeline, view) {
  const target = clampWindow(view, timeline.extent);
  timeline.held.clear();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    moveTo(timeline, target);
    return;
  }
  const from = timeline.view;
  let began = null;
  timeline.beforeFrame = (now) => {
    began ??= now;
    const share = Math.min(1, (now - began) / 180);
    const ease = 1 - (1 - share) ** 3;
    moveTo(
      timeline,
      share < 1 ? [from[0] + (target[0] - from[0]) * ease, from[1] + (target[1] - from[1]) * ease] : target
    );
    if (share >= 1) timeline.beforeFrame = null;
    else askFrame(timeline);
  };
  askFrame(timeline);
}
function choose(timeline) {
  const { data, names, search, filters } = timeline;
  if (names === null && search === null && !filters.size) timeline.chosen = null;
  else {
    const wanted = new Uint8Array(data.header.names.length);
    for (let id = 0; id < wanted.length; id++)
      wanted[id] = +((names === null || names.has(id)) && (search === null || search.isHit[id]));
    const keep = new Uint8Array(data.n);
    const filterOf = data.header.lanes.map((_, l) => filters.get(l)?.isHit ?? null);
    for (let i = 0; i < data.n; i++) keep[i] = wanted[data.name[i]] & (filterOf[data.lane[i]]?.[data.name[i]] ?? 1);
    timeline.chosen = { keep, index: gatherRows(data, timeline.rows, timeline.tone, keep) };
  }
  askFrame(timeline);
}
function relayout(timeline) {
  const { rows, collapsed, order, pinned } = timeline;
  timeline.layout = layoutLanes(rows.heights, collapsed, order, pinned.size);
  measure(timeline);
}
function announce(timeline) {
  timeline.options.onSelect?.({
    range: timeline.range && [...timeline.range],
    event: timeline.selected,
    names: timeline.names && new Set(timeline.names)
  });
}
function reveal(timeline, event, isZoomed = false) {
  const { data, view, dom, layout } = timeline;
  dom.tip.hidden = true;
  timeline.hover = null;
  const i = drawnEvent(data, timeline.rows, event);
  const [t0, t1] = [data.start[i], data.start[i] + data.dur[i]];
  const lane = data.lane[i];
  if (timeline.rows.row[i] >= layout.shown[lane] && timeline.collapsed.delete(lane)) relayout(timeline);
  const y = rowTop(timeline.layout, lane, timeline.rows.row[i]);
  const room = timeline.size.height - HEAD_HEIGHT;
  const pinned = pinnedHeight(timeline);
  const isPinned = y < pinned;
  if (!isPinned && y < timeline.scroll + pinned) dom.frame.scrollTop = y - pinned - 8;
  else if (!isPinned && y + ROW_HEIGHT > timeline.scroll + room) dom.frame.scrollTop = y + ROW_HEIGHT + 8 - room;
  const span = view[1] - view[0];
  const perPx = span / (timeline.size.width - timeline.size.gutter);
  if (isZoomed) glideTo(timeline, aroundEvent(t0, t1, 4));
  else if (t1 - t0 < 3 * perPx) glideTo(timeline, aroundEvent(t0, t1, 30));
  else if (t1 < view[0] + span * 0.02 || t0 > view[1] - span * 0.02) {
    glideTo(timeline, [(t0 + t1 - span) / 2, (t0 + t1 + span) / 2]);
  }
  askFrame(timeline);
}
function aroundEvent(t0, t1, times) {
  const half = t1 > t0 ? (t1 - t0) * times / 2 : 500;
  return [(t0 + t1) / 2 - half, (t0 + t1) / 2 + half];
}
function focusEvent(timeline, i) {
  if (i < 0) return;
  timeline.focused = i;
  timeline.focusLane = timeline.data.lane[i];
  timeline.dom.spoken.textContent = describeEvent(timeline.data, i);
  reveal(timeline, i);
}

// js/timeline/nav.js
function placeOf(timeline, i) {
  const r = timeline.index.laneRow[timeline.data.lane[i]] + timeline.rows.row[i];
  let p = placeAt(timeline.index, r, timeline.data.start[i]);
  while (p < timeline.index.first[r + 1] && timeline.index.at[p] !== i) p++;
  return { r, p };
}
function neighbour(timeline, event, direction) {
  const i = drawnEvent(timeline.data, timeline.rows, event);
  if (direction === "left" || direction === "right") {
    const { r, p } = placeOf(timeline, i);
    const q = direction === "left" ? p - 1 : p + 1;
    return q >= timeline.index.first[r] && q < timeline.index.first[r + 1] ? timeline.index.at[q] : i;
  }
  const lane = timeline.data.lane[i];
  const row = timeline.rows.row[i] + (direction === "up" ? -1 : 1);
  const middle = timeline.data.start[i] + timeline.data.dur[i] / 2;
  if (row >= 0 && row < timeline.layout.shown[lane]) {
    const inside = direction === "up" ? timeline.data.start[i] : middle;
    const found = nearestInRow(timeline, lane, row, inside, direction === "up" ? 0 : timeline.data.dur[i] / 2);
    if (found >= 0) return found;
  }
  return otherLane(timeline, lane, direction === "up" ? -1 : 1, middle) ?? i;
}
function otherLane(timeline, lane, by, t) {
  const { order } = timeline.layout;
  for (let place = order.indexOf(lane) + by; place >= 0 && place < order.length; place += by) {
    const found = nearestInRow(timeline, order[place], 0, t, Infinity);
    if (found >= 0) return found;
  }
  return null;
}
function nearestInRow(timeline, lane, row, t, reach) {
  const { index } = timeline;
  const r = index.laneRow[lane] + row;
  const exact = eventAt(index, r, t, 0);
  if (exact >= 0) return exact;
  const p = placeAt(index, r, t);
  let best = -1;
  let distance = reach;
  for (const q of [p - 1, p]) {
    if (q < index.first[r] || q >= index.first[r + 1]) continue;
    const away = Math.max(index.s[q] - t, t - index.e[q], 0);
    if (away <= distance) {
      best = index.at[q];
      distance = away;
    }
  }
  return best;
}
function acrossLaunch(timeline, i) {
  if (timeline.data.launch[i] >= 0) return timeline.data.launch[i];
  return launchesOf(timeline, i, 1)[0] ?? i;
}
function firstEvent(timeline, lanes) {
  const middle = (timeline.view[0] + timeline.view[1]) / 2;
  for (const l of lanes) {
    const found = nearestInRow(timeline, l, 0, middle, Infinity);
    if (found >= 0) return found;
  }
  return -1;
}
function searchNames(timeline, text) {
  if (!text.trim()) return null;
  const isHit = namesWith(timeline, text);
  let count = 0;
  for (let i = 0; i < timeline.data.n; i++) count += isHit[timeline.data.name[i]];
  return { isHit, count, at: -1 };
}
function namesWith(timeline, text) {
  const wanted = text.trim().toLowerCase();
  timeline.lowerNames ??= timeline.data.header.names.map((name) => name.toLowerCase());
  return Uint8Array.from(timeline.lowerNames, (name) => +name.includes(wanted));
}
function stepMatch({ data, view }, search, by) {
  const from = search.at;
  const isBefore = (a, b) => data.start[a] < data.start[b] || data.start[a] === data.start[b] && a < b;
  let best = -1;
  let extreme = -1;
  for (let i = 0; i < data.n; i++) {
    if (!search.isHit[data.name[i]]) continue;
    const after = by > 0 ? isBefore : (a, b) => isBefore(b, a);
    if (extreme < 0 || after(i, extreme)) extreme = i;
    const isPast = from >= 0 ? after(from, i) : by > 0 ? data.start[i] >= view[0] : data.start[i] <= view[1];
    if (isPast && (best < 0 || after(i, best))) best = i;
  }
  const found = best >= 0 ? best : extreme;
  let ordinal = 0;
  if (found >= 0) for (let i = 0; i < data.n; i++) ordinal += search.isHit[data.name[i]] && !isBefore(found, i) ? 1 : 0;
  return { found, ordinal };
}

// js/timeline/lanes.js
function foldLane(timeline, lane) {
  if (lane < 0 || timeline.rows.heights[lane] < 2) return;
  if (!timeline.collapsed.delete(lane)) timeline.collapsed.add(lane);
  changed(timeline, lane, timeline.collapsed.has(lane) ? "folded" : "unfolded");
}
function pinLane(timeline, lane) {
  const { order, pinned } = timeline;
  if (lane < 0) return;
  order.splice(order.indexOf(lane), 1);
  if (!pinned.delete(lane)) {
    order.splice(pinned.size, 0, lane);
    pinned.add(lane);
  } else order.splice(pinned.size, 0, lane);
  changed(timeline, lane, pinned.has(lane) ? "pinned" : "no longer pinned");
}
function moveLane(timeline, lane, place) {
  const { order, pinned } = timeline;
  if (lane < 0) return;
  const [low, high] = pinned.has(lane) ? [0, pinned.size - 1] : [pinned.size, order.length - 1];
  order.splice(order.indexOf(lane), 1);
  order.splice(Math.min(Math.max(place, low), high), 0, lane);
  changed(timeline, lane, `is lane ${order.indexOf(lane) + 1} of ${order.length}`);
}
function filterLane(timeline, lane, text) {
  if (text.trim()) timeline.filters.set(lane, { text: text.trim(), isHit: namesWith(timeline, text) });
  else timeline.filters.delete(lane);
  choose(timeline);
}
function changed(timeline, lane, what) {
  timeline.dom.spoken.textContent = `${timeline.data.header.lanes[lane].label} ${what}`;
  relayout(timeline);
  timeline.lanesPanel?.update();
}

// js/timeline/window.js
function showWindow(timeline, view) {
  timeline.beforeFrame = null;
  moveTo(timeline, view);
}
function panBy(timeline, px) {
  const { size, view } = timeline;
  const by = px / (size.width - size.gutter) * (view[1] - view[0]);
  showWindow(timeline, [view[0] + by, view[1] + by]);
}
function zoomBy(timeline, factor, x) {
  const { size, view } = timeline;
  const share = x === null ? 0.5 : Math.min(Math.max((x - size.gutter) / (size.width - size.gutter), 0), 1);
  const anchor = view[0] + share * (view[1] - view[0]);
  showWindow(timeline, [anchor + (view[0] - anchor) * factor, anchor + (view[1] - anchor) * factor]);
}
function centreAt(timeline, t) {
  const half = (timeline.view[1] - timeline.view[0]) / 2;
  showWindow(timeline, [t - half, t + half]);
}
function glideToEnd(timeline, isEnd) {
  const { extent, view } = timeline;
  const span = view[1] - view[0];
  const edge = span * 0.02;
  const from = isEnd ? extent[1] + edge - span : extent[0] - edge;
  glideTo(timeline, [from, from + span]);
}

// js/timeline/actions.js
var HIT_SLACK_PX = 3;
function createActions(timeline) {
  return { ...windowActions(timeline), ...pointerActions(timeline), ...keyActions(timeline) };
}
function windowActions(timeline) {
  return {
    show: (view) => showWindow(timeline, view),
    pan: (px) => panBy(timeline, px),
    zoom: (factor, x) => zoomBy(timeline, factor, x),
    centre: (t) => centreAt(timeline, t),
    fit: () => glideTo(timeline, timeline.whole),
    toEnd: (isEnd) => glideToEnd(timeline, isEnd)
  };
}
function pointerActions(timeline) {
  return {
    timeAt: (x) => timeAt(timeline, x),
    hover: (x, y) => hover(timeline, x, y),
    leave() {
      timeline.pointerX = null;
      setHover(timeline, null);
    },
    click: (x, y) => click(timeline, x, y),
    zoomToEventAt(x, y) {
      const found = eventUnder(timeline, x, y);
      if (found !== null) reveal(timeline, found, true);
    },
    dragRange(from, to) {
      timeline.range = [Math.min(from, to), Math.max(from, to)];
      askFrame(timeline);
    },
    finishRange: () => announce(timeline),
    measureTo(x, y) {
      const [from, to] = [timeline.selected, eventUnder(timeline, x, y)];
      if (from === null || to === null || from === to) return false;
      timeline.range = between(timeline.data, from, to);
      timeline.selected = null;
      announce(timeline);
      askFrame(timeline);
      return true;
    },
    clearRange() {
      if (timeline.range === null) return;
      timeline.range = null;
      announce(timeline);
      askFrame(timeline);
    },
    toggleLane: (y) => foldLane(timeline, laneAtY(timeline.layout, layoutY(timeline, y))),
    dropLane(from, to) {
      const [lane, other] = [from, to].map((y) => laneAtY(timeline.layout, layoutY(timeline, y)));
      moveLane(timeline, lane, other < 0 ? timeline.order.length - 1 : timeline.order.indexOf(other));
    }
  };
}
function keyActions(timeline) {
  return {
    zoomToFocused() {
      const event = timeline.focused ?? timeline.selected;
      if (event !== null) reveal(timeline, event, true);
    },
    toggleFocusLane: () => foldLane(timeline, laneInFocus(timeline)),
    pinFocusLane: () => pinLane(timeline, laneInFocus(timeline)),
    arrow(direction) {
      if (timeline.focused !== null) focusEvent(timeline, neighbour(timeline, timeline.focused, direction));
      else if (direction === "left" || direction === "right") panBy(timeline, (direction === "left" ? -1 : 1) * 80);
      else timeline.dom.frame.scrollBy(0, (direction === "up" ? -2 : 2) * ROW_HEIGHT);
    },
    enter() {
      const { focused } = timeline;
      if (focused === null) focusEvent(timeline, firstEvent(timeline, lanesInView(timeline)));
      else select(timeline, focused);
    },
    follow() {
      if (timeline.focused !== null) focusEvent(timeline, acrossLaunch(timeline, timeline.focused));
    },
    escape: () => escapeStep(timeline),
    search: (text) => runSearch(timeline, text),
    nextMatch: (by) => nextMatch(timeline, by),
    hold: (key) => holdKey(timeline, key),
    focusChanged(hasFocus) {
      timeline.hasFocus = hasFocus;
      askFrame(timeline);
    }
  };
}
function timeAt(timeline, x) {
  const frame = frameOf(timeline);
  return frame.t0 + (x - timeline.size.gutter) / frame.scale;
}
function eventUnder(timeline, x, y) {
  const { index, layout, size } = timeline;
  const place = rowAtY(layout, layoutY(timeline, y));
  if (place === null || x < size.gutter || y < HEAD_HEIGHT) return null;
  const slack = HIT_SLACK_PX / frameOf(timeline).scale;
  const found = eventAt(index, index.laneRow[place.lane] + place.row, timeAt(timeline, x), slack);
  return found < 0 ? null : found;
}
function hover(timeline, x, y) {
  const { dom } = timeline;
  timeline.pointerX = x;
  const found = eventUnder(timeline, x, y);
  if (found !== null) showTip(dom, tipLines(timeline, found), x + dom.frame.offsetLeft, y + dom.frame.offsetTop);
  setHover(timeline, found);
}
function setHover(timeline, event) {
  if (event === null) timeline.dom.tip.hidden = true;
  if (event === timeline.hover) return;
  timeline.hover = event;
  timeline.options.onHover?.(event);
  askFrame(timeline);
}
function click(timeline, x, y) {
  const found = eventUnder(timeline, x, y);
  timeline.focused = found;
  if (found === null) timeline.range = null;
  select(timeline, found);
}
function select(timeline, event) {
  timeline.selected = event;
  if (event !== null) timeline.dom.spoken.textContent = `selected ${describeEvent(timeline.data, event)}`;
  announce(timeline);
  askFrame(timeline);
}
function lanesInView(timeline) {
  const shown = frameOf(timeline).parts.reverse().flatMap(({ lanes }) => lanes);
  return [...shown, ...timeline.order.slice(timeline.order.indexOf(shown[shown.length - 1]) + 1)];
}
function laneInFocus(timeline) {
  return timeline.focusLane >= 0 ? timeline.focusLane : lanesInView(timeline)[0] ?? -1;
}
function escapeStep(timeline) {
  if (timeline.search !== null) {
    timeline.dom.search.value = "";
    runSearch(timeline, "");
  } else if (timeline.focused !== null && timeline.focused !== timeline.selected) timeline.focused = null;
  else if (timeline.selected !== null || timeline.range !== null) {
    Object.assign(timeline, { selected: null, range: null, focused: null });
    announce(timeline);
  } else return false;
  timeline.isArmed = false;
  askFrame(timeline);
  return true;
}
function runSearch(timeline, text) {
  const search = searchNames(timeline, text);
  timeline.search = search;
  timeline.dom.matches.textContent = search && `${formatCount(search.count)} ${search.count === 1 ? "match" : "matches"}`;
  choose(timeline);
  return search?.count ?? 0;
}
function nextMatch(timeline, by) {
  const { search } = timeline;
  if (search === null || search.count === 0) return;
  const { found, ordinal } = stepMatch(timeline, search, by);
  search.at = found;
  timeline.dom.matches.textContent = `${formatCount(ordinal)} of ${formatCount(search.count)}`;
  timeline.selected = found;
  focusEvent(timeline, found);
  announce(timeline);
}
function holdKey(timeline, key) {
  const step = ([zoom, pan], seconds) => {
    if (zoom) zoomBy(timeline, Math.exp(-zoom * 2.2 * seconds), timeline.pointerX);
    if (pan) panBy(timeline, pan * 900 * seconds);
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    step(heldMotion([key]), 0.12);
    return;
  }
  if (timeline.held.has(key)) return;
  timeline.held.add(key);
  let before = null;
  const move = (now) => {
    const seconds = before === null ? 1 / 60 : Math.min(0.05, (now - before) / 1e3);
    before = now;
    step(heldMotion(timeline.held), seconds);
    timeline.beforeFrame = timeline.held.size ? move : null;
    if (timeline.held.size) askFrame(timeline);
  };
  timeline.beforeFrame = move;
  askFrame(timeline);
}

// js/timeline/lanes_panel.js
function listenToLanesButton(timeline) {
  const { lanesButton, lanes } = timeline.dom;
  listen(timeline, lanesButton, "click", () => {
    timeline.lanesPanel ??= createLanesPanel(timeline);
    lanes.hidden = !lanes.hidden;
    lanesButton.setAttribute("aria-expanded", String(!lanes.hidden));
    timeline.lanesPanel.update();
  });
}
function createLanesPanel(timeline) {
  const items = timeline.data.header.lanes.map((_, lane) => laneItem(timeline, lane));
  const list = element("ul", { "aria-label": "Lanes" });
  timeline.dom.lanes.replaceChildren(list);
  return {
    update() {
      const { activeElement } = document;
      list.append(...timeline.order.map((lane) => items[lane].node));
      for (const item of items) item.update();
      if (activeElement instanceof HTMLElement && list.contains(activeElement)) activeElement.focus();
    }
  };
}
function laneItem(timeline, lane) {
  const { label } = timeline.data.header.lanes[lane];
  const button = (text, title, press) => element("button", { type: "button", title, "aria-label": `${title}: ${label}`, onclick: press }, text);
  const pin = button("Pin", "Keep on top", () => pinLane(timeline, lane));
  const up = button("↑", "Move up", () => moveLane(timeline, lane, timeline.order.indexOf(lane) - 1));
  const down = button("↓", "Move down", () => moveLane(timeline, lane, timeline.order.indexOf(lane) + 1));
  const fold = button("Fold", "Show one row", () => foldLane(timeline, lane));
  fold.disabled = timeline.rows.heights[lane] < 2;
  const filter = element("input", {
    type: "search",
    placeholder: "Filter names",
    "aria-label": `Filter names: ${label}`
  });
  filter.addEventListener("input", () => filterLane(timeline, lane, filter.value));
  for (const node of [pin, up, down, fold, filter]) node.setAttribute("data-lm-suppress-shortcuts", "true");
  const name = element("span", { class: "cltl-lane", title: label }, label);
  return {
    node: element("li", {}, pin, up, down, fold, name, filter),
    update() {
      pin.setAttribute("aria-pressed", String(timeline.pinned.has(lane)));
      fold.setAttribute("aria-pressed", String(timeline.collapsed.has(lane)));
    }
  };
}

// js/timeline/timeline.js
var MAX_HEIGHT = 460;
var MIN_HEIGHT = 150;
var NEAR = "800px 0px";
function createTimeline(root, data, options = {}) {
  const timeline = createState(root, data, options);
  const act = createActions(timeline);
  listenToPointer(timeline, act);
  listenToKeys(timeline, act);
  listenToTools(timeline, act);
  applyTheme(timeline, timeline.mode);
  setFrameHeight(timeline);
  measure(timeline);
  const watch = new ResizeObserver(() => measure(timeline));
  watch.observe(timeline.dom.frame);
  const near = new IntersectionObserver((entries) => setNear(timeline, entries[entries.length - 1].isIntersecting), {
    rootMargin: NEAR
  });
  near.observe(timeline.dom.frame);
  timeline.cleanups.push(
    () => watch.disconnect(),
    () => near.disconnect()
  );
  paintNow(timeline);
  return publicApi(timeline, act);
}
function applyTheme(timeline, mode) {
  Object.assign(timeline, paletteOf(mode));
  setColors(timeline.dom.host, timeline.colors);
  fillLegend(timeline.dom, legendEntries(timeline));
  askFrame(timeline);
}
function setFrameHeight({ dom, layout, options }) {
  const wanted = options.height ?? Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, layout.total + HEAD_HEIGHT));
  dom.frame.style.height = `${Math.round(wanted) + 2}px`;
}
function listenToTools(timeline, act) {
  const { dom } = timeline;
  listen(timeline, dom.zoomIn, "click", () => act.zoom(0.5, null));
  listen(timeline, dom.zoomOut, "click", () => act.zoom(2, null));
  listen(timeline, dom.fit, "click", act.fit);
  listenToLanesButton(timeline);
  listen(timeline, dom.next, "click", () => act.nextMatch(1));
  listen(timeline, dom.previous, "click", () => act.nextMatch(-1));
  listen(timeline, dom.frame, "scroll", () => askFrame(timeline), { passive: true });
}
function publicApi(timeline, act) {
  return {
    setTheme: (name) => applyTheme(timeline, name),
    fit: act.fit,
    zoomTo: (t0, t1) => act.show([t0, t1]),
    getView: () => [...timeline.view],
    select(event = null) {
      timeline.selected = event;
      if (event !== null) reveal(timeline, event);
      askFrame(timeline);
    },
    setRange(t0, t1 = null) {
      timeline.range = t0 === null || t1 === null ? null : [t0, t1];
      askFrame(timeline);
    },
    setNames(names) {
      timeline.names = names === null ? null : new Set(names);
      choose(timeline);
    },
    raceOf: (event) => timeline.races.find((mark) => mark.event === event && event !== null)?.race ?? null,
    showRace: (race) => showMark(
      timeline,
      timeline.races.find((mark) => mark.race === race)
    ),
    showSync: (group) => showMark(
      timeline,
      timeline.syncs.find((mark) => mark.group === group)
    ),
    search(text) {
      timeline.dom.search.value = text;
      return runSearch(timeline, text);
    },
    focus: () => timeline.dom.canvas.focus({ preventScroll: true }),
    resize: () => measure(timeline),
    boxOf: (event) => boxOf(timeline, event),
    stats: () => ({ frames: timeline.script.length, script: [...timeline.script] }),
    destroy: () => destroy(timeline)
  };
}
function destroy(timeline) {
  timeline.isGone = true;
  cancelAnimationFrame(timeline.pending);
  for (const cleanup of timeline.cleanups.splice(0)) cleanup();
  timeline.dom.host.remove();
}
function showMark(timeline, mark) {
  if (!mark) return;
  if (mark.event >= 0) {
    timeline.focused = mark.event;
    reveal(timeline, mark.event);
  } else if (mark.at < timeline.view[0] || mark.at > timeline.view[1]) {
    const half = (timeline.view[1] - timeline.view[0]) / 2;
    moveTo(timeline, [mark.at - half, mark.at + half]);
  }
  askFrame(timeline);
}
function boxOf(timeline, event) {
  const frame = frameOf(timeline);
  const lane = timeline.data.lane[event];
  if (timeline.rows.row[event] >= timeline.layout.shown[lane]) return null;
  const x = frame.x(timeline.data.start[event]);
  const width = timeline.data.dur[event] * frame.scale;
  return { x, y: frame.y(lane, timeline.rows.row[event]), width, height: ROW_HEIGHT - 1 };
}

// js/watch/panel.js
function createPanel(host, model) {
  const parts = buildParts(model);
  host.replaceChildren(parts.root);
  const timeline = createRecordingView(parts);
  const paint = () => {
    hidePictures(model.get("_picture"), true);
    showTree(parts.content, model.get("_panel"));
    parts.root.dataset.updates = String(model.get("_panel").number ?? 0);
  };
  const describe = () => {
    const ended = model.get("_ended");
    parts.root.dataset.state = ended ? "ended" : "live";
    for (const button of parts.buttons) button.hidden = Boolean(ended);
    parts.note.textContent = ended || model.get("_hint");
  };
  const receive = (message, buffers) => {
    if (message?.kind === "timeline") timeline.show(message.step ?? 0, buffers[0]);
    else if (message?.kind === "note") parts.note.textContent = message.text ?? "";
  };
  const listeners = [
    ["msg:custom", receive],
    ["change:_panel", paint],
    ["change:_ended", describe]
  ];
  for (const [name, listener] of listeners) model.on(name, listener);
  paint();
  describe();
  send(model, "timeline");
  return () => {
    for (const [name, listener] of listeners) model.off(name, listener);
    timeline.destroy();
    hidePictures(model.get("_picture"), false);
  };
}
function send(model, kind) {
  try {
    model.send({ kind, view: uniqueId() });
  } catch {
  }
}
function buildParts(model) {
  const note = element("span", { class: "cl-watch-hint" });
  const act = (kind, text) => () => {
    note.textContent = text;
    send(model, kind);
  };
  const buttons = [
    element("button", { type: "button", onclick: act("record", "Recording is requested.") }, "Record now"),
    element("button", { type: "button", onclick: act("stop", "A stop is requested.") }, "Stop watching")
  ];
  const content = element("div", { class: "cl-watch-content" });
  const heading = element("h4", { hidden: true });
  const timeline = element("div", { class: "cudalens cl-watch-timeline", hidden: true });
  const tools = element("div", { class: "cl-watch-tools" }, ...buttons, note);
  const root = element("div", { class: "cudalens-watch" }, tools, content, heading, timeline);
  return { root, content, buttons, note, heading, timeline };
}
function showTree(content, { tree }) {
  if (!tree) return;
  const open = findAll(content, "details", HTMLDetailsElement).map((node) => node.open);
  content.replaceChildren(buildElement(tree));
  for (const [k, node] of findAll(content, "details", HTMLDetailsElement).entries()) node.open = open[k] ?? node.open;
}
function createRecordingView({ heading, timeline: host }) {
  let view = null;
  let number = 0;
  const unwatch = watchPageTheme((theme) => {
    host.dataset.theme = theme;
    view?.setTheme(theme);
  });
  return {
    /**
     * @param {number} step
     * @param {DataView<ArrayBuffer>} buffer
     */
    async show(step, buffer) {
      number += 1;
      const own = number;
      const bytes = new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
      const data = await decodePayload(bytes);
      if (own !== number || view && host.matches(":hover")) return;
      view?.destroy();
      heading.hidden = host.hidden = false;
      heading.textContent = `Timeline of step ${step.toLocaleString("en")}: click it, then scroll to zoom, drag to move`;
      host.dataset.theme = pageTheme();
      host.dataset.step = String(step);
      view = createTimeline(host, data, { theme: pageTheme() });
    },
    destroy() {
      number += 1;
      unwatch();
      view?.destroy();
    }
  };
}

// js/watch.js
function render({ model, el }) {
  return createPanel(el, model);
}
var watch_default = { render };
export {
  watch_default as default
};
