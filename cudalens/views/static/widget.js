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
  for (const [name, column2] of Object.entries(header.columns)) {
    const found = [];
    for (const size of "text" in column2 ? [column2.text] : column2.planes) {
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
  const [ts, device, action, bytes, allocated, reserved, event] = columns.map((column2) => Float64Array.from(column2));
  for (let i = 1; i < ts.length; i++) {
    ts[i] += ts[i - 1];
    event[i] += event[i - 1];
  }
  for (const column2 of [allocated, reserved]) undoSteps(column2, device, devices.length);
  return devices.map((label, k) => {
    const rows = [...device.keys()].filter((i) => device[i] === k);
    const part = (column2) => Float64Array.from(rows, (i) => column2[i]);
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
function undoSteps(column2, device, numDevices) {
  const before = new Float64Array(numDevices);
  for (let i = 0; i < column2.length; i++) {
    before[device[i]] += column2[i];
    const value = before[device[i]];
    column2[i] = value === 0 ? Number.NaN : value - 1;
  }
}
async function readMetrics(payload) {
  const { devices, gauges, reasons } = payload.header.metrics;
  return Promise.all(devices.map((label, k) => readDevice(payload, gauges, { label, k, reasons })));
}
async function readDevice(payload, gauges, { label, k, reasons }) {
  const names = ["ts", "slowed_by", ...gauges.map(({ column: column2 }) => column2)];
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
    values: Object.fromEntries(gauges.map(({ column: column2 }, g) => [column2, decoded[g]]))
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
function shortName(header, id) {
  return header.short[id] ?? header.names[id];
}
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
function svgElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
}
var ESCAPES = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
function escapeHtml(text) {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character]);
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

// js/app/measure.js
var DEVICE_CATS = /* @__PURE__ */ new Set(["kernel", "gpu_memcpy", "gpu_memset"]);
function measureRange(data, [t0, t1]) {
  const { start, dur, cat, lane, header } = data;
  const isWork = header.cats.map((name) => DEVICE_CATS.has(name));
  const isDevice = header.lanes.map(({ kind }) => kind === "device");
  const found = [];
  let calls = 0;
  for (let i = 0; i < data.n; i++) {
    if (start[i] >= t1 || start[i] + dur[i] <= t0) continue;
    if (isWork[cat[i]] && isDevice[lane[i]]) found.push(i);
    else if (!isDevice[lane[i]]) calls += 1;
  }
  found.sort((a, b) => start[a] - start[b]);
  let [busy, until] = [0, t0];
  for (const i of found) {
    const from = Math.max(start[i], until);
    const to = Math.min(start[i] + dur[i], t1);
    if (to <= from) continue;
    busy += to - from;
    until = to;
  }
  return { busy, idle: t1 - t0 - busy, work: found.length, calls };
}
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
function formatBytes(bytes) {
  if (bytes === null || bytes === void 0 || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${formatBytes(-bytes)}`;
  for (const [scale, unit] of BYTE_UNITS) {
    if (bytes >= 0.9995 * scale) return `${threeDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}
function formatPercent(value) {
  if (value === null || value === void 0 || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}
function formatCount(number) {
  return number.toLocaleString("en-US");
}
function formatPlural(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
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
  const legend2 = element("ul", { class: "cltl-legend", "aria-label": "Colours" });
  const tools = element(
    "div",
    { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(search, previous, next, matches),
    group(zoomOut, zoomIn, fit, lanesButton),
    legend2
  );
  return { search, matches, previous, next, zoomIn, zoomOut, fit, lanesButton, legend: legend2, tools };
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
function laneAtY(layout2, y) {
  const { order, tops } = layout2;
  if (y < 0 || y >= layout2.total) return -1;
  let low = 0;
  let high = order.length - 1;
  while (low < high) {
    const mid = low + high + 1 >> 1;
    if (tops[order[mid]] <= y) low = mid;
    else high = mid - 1;
  }
  return order[low];
}
function rowTop(layout2, lane, row) {
  return layout2.tops[lane] + LANE_PADDING + row * ROW_HEIGHT;
}
function rowAtY(layout2, y) {
  const lane = laneAtY(layout2, y);
  if (lane < 0) return null;
  const row = Math.floor((y - layout2.tops[lane] - LANE_PADDING) / ROW_HEIGHT);
  return row >= 0 && row < layout2.shown[lane] ? { lane, row } : null;
}

// js/timeline/frame.js
var MAX_PINNED = 0.6;
function pinnedHeight({ size, layout: layout2 }) {
  return layout2.pinned <= MAX_PINNED * (size.height - HEAD_HEIGHT) ? layout2.pinned : 0;
}
function layoutY(timeline, y) {
  return y - HEAD_HEIGHT < pinnedHeight(timeline) ? y - HEAD_HEIGHT : y - HEAD_HEIGHT + timeline.scroll;
}
function frameOf(timeline) {
  const { size, view, layout: layout2 } = timeline;
  const width = size.width - size.gutter;
  const pixels = Math.max(1, Math.round(width * size.ratio));
  const w = (view[1] - view[0]) / pixels;
  const t0 = Math.round(view[0] / w) * w;
  const scale = pixels / size.ratio / (view[1] - view[0]);
  const pinned = pinnedHeight(timeline);
  const x = (t) => size.gutter + (t - t0) * scale;
  const down = (lane, at) => HEAD_HEIGHT + at - (layout2.tops[lane] < pinned ? 0 : timeline.scroll);
  const y = (lane, row) => down(lane, rowTop(layout2, lane, row));
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, parts: partsInView(timeline, pinned), x, y, down };
}
function partsInView({ layout: layout2, size, scroll }, pinned) {
  const { order, tops } = layout2;
  const from = Math.min(scroll, Math.max(0, layout2.total - 1)) + pinned;
  const to = scroll + size.height - HEAD_HEIGHT;
  const first = Math.max(0, order.indexOf(laneAtY(layout2, from)));
  const last = laneAtY(layout2, to);
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
  const { layout: layout2, colors, size } = timeline;
  const isTall = timeline.rows.heights[l] > 1;
  const edge = ROW_HEIGHT / 2 + 4;
  const low = frame.down(l, layout2.tops[l]) + edge;
  const high = frame.down(l, layout2.ends[l]) - edge;
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
  const { data, view, dom, layout: layout2 } = timeline;
  dom.tip.hidden = true;
  timeline.hover = null;
  const i = drawnEvent(data, timeline.rows, event);
  const [t0, t1] = [data.start[i], data.start[i] + data.dur[i]];
  const lane = data.lane[i];
  if (timeline.rows.row[i] >= layout2.shown[lane] && timeline.collapsed.delete(lane)) relayout(timeline);
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
  const { index, layout: layout2, size } = timeline;
  const place = rowAtY(layout2, layoutY(timeline, y));
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
  const step = ([zoom2, pan], seconds) => {
    if (zoom2) zoomBy(timeline, Math.exp(-zoom2 * 2.2 * seconds), timeline.pointerX);
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
function setFrameHeight({ dom, layout: layout2, options }) {
  const wanted = options.height ?? Math.min(MAX_HEIGHT, Math.max(MIN_HEIGHT, layout2.total + HEAD_HEIGHT));
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

// js/app/details.js
function eventFacts(data, i) {
  const lane = data.header.lanes[data.lane[i]];
  const facts = [
    ["Kind", data.header.cats[data.cat[i]]],
    ["Start", formatDuration(data.start[i])],
    ["Duration", formatDuration(data.dur[i])]
  ];
  if (lane.kind === "host" && data.self[i] !== data.dur[i]) facts.push(["Self time", formatDuration(data.self[i])]);
  facts.push([lane.kind === "device" ? "Stream" : "Thread", lane.label]);
  if (data.launch[i] >= 0) facts.push(...launchFacts(data, i));
  facts.push(...detailFacts(data, i));
  facts.push(...callerFacts(data, i));
  facts.push(["Row", `trace.events.iloc[${data.row[i]}]`]);
  return facts;
}
function launchFacts(data, i) {
  const by = data.launch[i];
  return [
    ["Launched by", data.header.names[data.name[by]]],
    ["Waited", formatDuration(data.start[i] - data.start[by])]
  ];
}
var MAX_CALLERS = 60;
function callerFacts(data, i) {
  const facts = [];
  const stackOf = data.detailOf("stack");
  const lines = [];
  let stack = stackOf(i);
  const isOwn = stack !== null;
  for (let k = data.launch[i] >= 0 ? data.launch[i] : data.parent[i]; k >= 0; k = data.parent[k]) {
    stack ??= stackOf(k);
    if (lines.length < MAX_CALLERS) lines.push(shortName(data.header, data.name[k]));
  }
  if (stack !== null && !isOwn) facts.push(["Call stack", String(stack)]);
  if (lines.length) facts.push(["Called from", lines.join("\n")]);
  return facts;
}
var DETAIL_TERMS = {
  shapes: "Input shapes",
  dtypes: "Input dtypes",
  module: "Module",
  grid: "Grid",
  block_dim: "Block",
  registers: "Registers a thread",
  shared_memory_bytes: "Shared memory",
  blocks_per_sm: "Blocks per SM",
  warps_per_sm: "Warps per SM",
  occupancy_pct: "Occupancy",
  num_bytes: "Bytes",
  flops: "FLOPs",
  step: "Step",
  correlation_id: "Correlation id",
  external_id: "External id",
  sequence_nr: "Sequence number",
  graph_id: "CUDA graph",
  graph_node_id: "Graph node",
  collective: "Collective",
  process_group: "Process group",
  stack: "Call stack"
};
function detailFacts(data, i) {
  const facts = [];
  for (const [key, value] of Object.entries(data.detail(i))) {
    if (value === null || value === "") continue;
    facts.push([DETAIL_TERMS[key] ?? key, detailText(key, value)]);
  }
  return facts;
}
function detailText(key, value) {
  if (key.endsWith("_bytes")) return formatBytes(Number(value));
  if (key === "occupancy_pct") return `${value} %`;
  return typeof value === "number" ? formatCount(value) : String(value);
}
function renderDetails(host, data, event) {
  if (event === null) {
    host.replaceChildren();
    return;
  }
  const list = element("dl", { class: "cl-facts" });
  for (const [term, text] of eventFacts(data, event)) {
    list.append(element("dt", {}, term), element("dd", {}, text));
  }
  host.replaceChildren(
    element("h3", { "aria-level": 2, class: "cl-event" }, data.header.names[data.name[event]]),
    list
  );
}

// js/memory/thin_curve.js
var MAX_POINTS = 4e3;
function curveWithin({ ts, values }, [t0, t1]) {
  let [from, to] = [0, ts.length];
  while (from + 1 < ts.length && ts[from + 1] < t0) from += 1;
  while (to - 2 > from && ts[to - 2] > t1) to -= 1;
  return thinCurve(ts.subarray(from, to), values.subarray(from, to));
}
function thinCurve(ts, values) {
  const n = ts.length;
  if (n <= MAX_POINTS) return { ts: Array.from(ts), values: Array.from(values) };
  const keep = [0];
  const stretch = (n - 2) / (MAX_POINTS / 2 - 1);
  for (let k = 0; k * stretch < n - 2; k++) {
    const [from, to] = [1 + Math.floor(k * stretch), Math.min(n - 1, 1 + Math.floor((k + 1) * stretch))];
    let [low, high] = [from, from];
    for (let i = from; i < to; i++) {
      if (values[i] < values[low]) low = i;
      if (values[i] > values[high]) high = i;
    }
    if (from < to) keep.push(Math.min(low, high), ...low === high ? [] : [Math.max(low, high)]);
  }
  keep.push(n - 1);
  return { ts: keep.map((i) => ts[i]), values: keep.map((i) => values[i]) };
}

// js/memory/plot.js
var PALETTE = {
  light: { lines: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b"], text: "#57606a", grid: "#d9dee4", fill: 0.14 },
  dark: { lines: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0"], text: "#9aa5b1", grid: "#30363d", fill: 0.2 }
};
var BYTE_UNITS2 = [
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"]
];
var TIME_UNITS2 = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
  [1, "ns"]
];
var CONFIG = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };
function plotGutter(width) {
  return Math.max(56, Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) - 1);
}
function createMemoryPlot(host, series, { Plotly, theme, view, onRange }) {
  const root = element("div", { class: "cl-plot" });
  host.replaceChildren(root);
  const peaks = series.map(peakOf);
  const time = unitOf(view[1] - view[0], TIME_UNITS2);
  const bytes = unitOf(Math.max(...peaks.map((peak) => peak.value), 1), BYTE_UNITS2);
  const plot = { root, series, peaks, time, bytes, theme, range: null, view, width: 0 };
  const ready = Plotly.newPlot(root, traces(plot), layout(plot), CONFIG).then((node) => {
    node.on("plotly_selected", (event) => {
      if (event?.range) onRange(selectedRange(event.range.x, time[0]));
    });
    node.on("plotly_deselect", () => onRange(null));
    node.on("plotly_doubleclick", () => onRange(null));
  });
  const redraw = async () => {
    await ready;
    if (root.isConnected) await Plotly.react(root, traces(plot), layout(plot), CONFIG);
  };
  const set = (changes) => {
    Object.assign(plot, changes);
    return redraw();
  };
  return {
    ready,
    setRange: (range) => set({ range }),
    setView: (next) => set({ view: next }),
    setTheme: (name) => set({ theme: name }),
    // A width in the layout would be kept, so Plotly reads the size from the page.
    async resize() {
      await redraw();
      if (root.isConnected && root.clientWidth) Plotly.Plots.resize(root);
    },
    destroy: () => ready.then(() => Plotly.purge(root))
  };
}
function peakOf({ ts, values }) {
  let at = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[at]) at = i;
  return { ts: ts[at], value: values[at] };
}
function unitOf(largest, units) {
  return units.find(([scale]) => largest >= scale) ?? units[units.length - 1];
}
function selectedRange(x, scale) {
  const [a, b] = x.map((t) => t * scale);
  return a === b ? null : [Math.min(a, b), Math.max(a, b)];
}
function traces({ series, view, theme, time, bytes }) {
  return series.map((one, k) => {
    const curve = curveWithin(one, view);
    const color = PALETTE[theme].lines[k % 4];
    return {
      type: "scatter",
      mode: "lines",
      name: one.label,
      x: curve.ts.map((t) => t / time[0]),
      y: curve.values.map((v) => v / bytes[0]),
      line: { shape: "hv", width: 1.5, color },
      fill: series.length === 1 ? "tozeroy" : "none",
      fillcolor: `rgba(${rgbOf(color).join(",")},${PALETTE[theme].fill})`,
      text: curve.values.map((v, i) => `${formatBytes(v)} at ${formatDuration(curve.ts[i])}`),
      hoverinfo: "text+name"
    };
  });
}
function layout(plot) {
  const { range, view, time, bytes } = plot;
  plot.width = plot.root.clientWidth || plot.width;
  const { text, grid, lines } = PALETTE[plot.theme];
  const axis = {
    gridcolor: grid,
    zerolinecolor: grid,
    linecolor: grid,
    tickcolor: grid,
    fixedrange: true,
    separatethousands: true
  };
  return {
    height: 200,
    margin: { l: plotGutter(plot.width), r: 1, t: 22, b: 34 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: text, size: 11, family: "inherit" },
    dragmode: "select",
    selectdirection: "h",
    showlegend: plot.series.length > 1,
    legend: { orientation: "h", x: 0, y: 1.18 },
    hovermode: "closest",
    newselection: { line: { color: text, width: 1 } },
    xaxis: { ...axis, range: view.map((t) => t / time[0]), ticksuffix: ` ${time[1]}` },
    yaxis: { ...axis, rangemode: "tozero", ticksuffix: ` ${bytes[1]}` },
    shapes: range === null ? [] : [rangeShape(range, lines[0], time[0])],
    annotations: peakNotes(plot)
  };
}
function peakNotes({ peaks, view, theme, time, bytes }) {
  return peaks.map((peak, k) => {
    const color = PALETTE[theme].lines[k % 4];
    return {
      x: peak.ts / time[0],
      y: peak.value / bytes[0],
      text: `peak ${formatBytes(peak.value)}`,
      showarrow: true,
      arrowhead: 0,
      arrowwidth: 1,
      ax: peak.ts > (view[0] + view[1]) / 2 ? -44 : 44,
      ay: -10,
      bgcolor: "rgba(0,0,0,0)",
      font: { color, size: 11 },
      arrowcolor: color
    };
  });
}
function rangeShape([t0, t1], color, scale) {
  return {
    type: "rect",
    xref: "x",
    yref: "paper",
    x0: t0 / scale,
    x1: t1 / scale,
    y0: 0,
    y1: 1,
    fillcolor: color,
    opacity: 0.18,
    line: { width: 1, color },
    layer: "below"
  };
}

// js/devices/metrics.js
var ROW_HEIGHT2 = 44;
var ROW_GAP = 8;
var MAX_POINTS2 = 2e3;
var LINE_COLORS = {
  light: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b", "#b02f78", "#5a7a0a", "#a3301f", "#4f6673"],
  dark: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0", "#f08cc4", "#b5d35a", "#ff9a8a", "#a9bfca"]
};
function formatReading({ unit, column: column2 }, value) {
  if (value === void 0 || Number.isNaN(value)) return "-";
  if (column2.endsWith("_bytes")) return formatBytes(value);
  return unit === "%" ? formatPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}
function readingAt(ts, t) {
  let [low, high] = [0, ts.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (ts[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function largestOf(values, least = 0) {
  return values.reduce((most, value) => value > most ? value : most, least);
}
function createMetrics(host, devices, gauges, { theme, view }) {
  const known = gauges.filter(
    ({ column: column2 }) => devices.some(({ values }) => values[column2].some((v) => !Number.isNaN(v)))
  );
  const rows = known.map((gauge) => ({
    gauge,
    largest: gauge.full ?? Math.max(...devices.map(({ values }) => largestOf(values[gauge.column])), 1e-9)
  }));
  const legend2 = element("p", { class: "cl-metrics-legend" });
  const attributes = { class: "cl-metrics-plot", role: "img", "aria-label": "Readings of the GPUs over time" };
  const plot = svgElement("svg", attributes);
  const tip = element("p", { class: "cl-metrics-tip cl-hint", "aria-live": "off" });
  const cursor = svgElement("path", { class: "cl-metrics-cursor", fill: "none" });
  host.replaceChildren(legend2, plot, tip);
  const id = `cl-metrics-${Math.random().toString(36).slice(2)}`;
  const height = rows.length * (ROW_HEIGHT2 + ROW_GAP);
  const metrics = { host, devices, rows, id, height, legend: legend2, plot, cursor, tip, theme, view, width: 0 };
  plot.addEventListener("pointermove", (event) => point(metrics, event));
  plot.addEventListener("pointerleave", () => leave(metrics));
  draw(metrics);
  return {
    setView(next) {
      metrics.view = next;
      draw(metrics);
    },
    setTheme(name) {
      metrics.theme = name;
      draw(metrics);
    },
    resize: () => draw(metrics),
    destroy: () => host.replaceChildren()
  };
}
function scaleOf(metrics) {
  const width = Math.max(metrics.host.clientWidth || metrics.width, 200);
  metrics.width = width;
  const gutter = plotGutter(width);
  const inner = width - gutter - 1;
  const [t0, t1] = metrics.view;
  return { width, gutter, inner, x: (t) => gutter + (t - t0) / (t1 - t0) * inner };
}
function draw(metrics) {
  const { devices, height, id, legend: legend2, plot } = metrics;
  const scale = scaleOf(metrics);
  const lines = LINE_COLORS[metrics.theme];
  const labels = devices.length > 1 ? devices.map(({ label }) => label) : [];
  legend2.replaceChildren(
    ...labels.map((label, k) => element("span", { style: `color:${lines[k % lines.length]}` }, label))
  );
  const area = svgElement("rect", { x: scale.gutter, y: 0, width: scale.inner, height });
  const rows = metrics.rows.map((_, row) => gaugeRow(metrics, row, scale));
  plot.setAttribute("width", String(scale.width));
  plot.setAttribute("height", String(height));
  plot.setAttribute("viewBox", `0 0 ${scale.width} ${height}`);
  plot.replaceChildren(svgElement("clipPath", { id }, area), ...rows, metrics.cursor);
}
function gaugeRow({ devices, rows, id, theme, view }, row, { width, gutter, x }) {
  const { gauge, largest } = rows[row];
  const top = row * (ROW_HEIGHT2 + ROW_GAP);
  const lines = LINE_COLORS[theme];
  const y = (value) => top + ROW_HEIGHT2 - (ROW_HEIGHT2 - 3) * Math.min(value / largest, 1);
  const peak = Math.max(...devices.map(({ values }) => largestOf(values[gauge.column])));
  const paths = devices.map(
    ({ ts, values }, k) => svgElement("path", {
      d: linePath(ts, values[gauge.column], view, x, y),
      fill: "none",
      stroke: lines[k % lines.length],
      "stroke-width": 1.4
    })
  );
  return svgElement(
    "g",
    {},
    svgElement("text", { x: 0, y: top + 16 }, gauge.title),
    svgElement("text", { x: 0, y: top + 31, class: "cl-metrics-muted" }, `up to ${formatReading(gauge, peak)}`),
    svgElement("path", { d: `M${gutter} ${top + ROW_HEIGHT2}H${width - 1}`, class: "cl-metrics-base" }),
    svgElement("g", { "clip-path": `url(#${id})` }, ...paths)
  );
}
function linePath(ts, values, [t0, t1], x, y) {
  const from = Math.max(readingAt(ts, t0), 0);
  const to = Math.min(readingAt(ts, t1) + 2, ts.length);
  const stride = Math.max(1, Math.ceil((to - from) / MAX_POINTS2));
  let path = "";
  for (let i = from; i < to; i += stride) {
    let best = i;
    for (let k = i; k < Math.min(i + stride, to); k++) {
      if (values[k] > values[best] || Number.isNaN(values[best])) best = k;
    }
    if (Number.isNaN(values[best])) continue;
    path += `${path ? "L" : "M"}${x(ts[best]).toFixed(1)} ${y(values[best]).toFixed(1)}`;
  }
  return path;
}
function point(metrics, event) {
  const { gutter, inner } = scaleOf(metrics);
  const at = event.clientX - metrics.plot.getBoundingClientRect().left;
  if (at < gutter || at > gutter + inner) {
    leave(metrics);
    return;
  }
  const [t0, t1] = metrics.view;
  const t = t0 + (at - gutter) / inner * (t1 - t0);
  metrics.cursor.setAttribute("d", `M${at.toFixed(1)} 0V${metrics.height}`);
  const texts = metrics.devices.map((device) => readingsText(metrics, device, t));
  metrics.tip.textContent = [formatDuration(t), ...texts].filter(Boolean).join(" · ");
}
function readingsText({ devices, rows }, { label, ts, values, slowed, reasons }, t) {
  const i = readingAt(ts, t);
  if (i < 0) return "";
  const texts = rows.map(({ gauge }) => formatReading(gauge, values[gauge.column][i])).join(", ");
  return `${devices.length > 1 ? `${label}: ` : ""}${texts}${slowed[i] ? `, throttled by ${reasons[slowed[i]]}` : ""}`;
}
function leave({ cursor, tip }) {
  cursor.removeAttribute("d");
  tip.textContent = "";
}

// js/app/selection.js
var NOTHING = { range: null, event: null, names: null };
function createSelectionStore() {
  let state = NOTHING;
  const listeners = /* @__PURE__ */ new Set();
  const store = {
    get: () => state,
    isEmpty: () => sameSelection(state, NOTHING),
    set(changes, origin) {
      const next = { ...state, ...changes };
      if (next.names?.size === 0) next.names = null;
      if (sameSelection(state, next)) return;
      state = next;
      for (const listener of [...listeners]) listener(state, origin);
    },
    clear: (origin) => store.set(NOTHING, origin),
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    }
  };
  return store;
}
function sameSelection(a, b) {
  return a.event === b.event && sameList(a.range, b.range) && sameList(a.names, b.names);
}
function sameList(a, b) {
  if (a === null || b === null) return a === b;
  const [x, y] = [[...a], [...b]];
  return x.length === y.length && x.every((value, i) => value === y[i]);
}
function descendants(data, root) {
  const inside = new Uint8Array(data.n);
  inside[root] = 1;
  for (let i = root + 1; i < data.n; i++) if (data.parent[i] >= 0 && inside[data.parent[i]]) inside[i] = 1;
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0 && inside[data.launch[i]]) inside[i] = 1;
  return inside;
}
function selectedMask(data, { range, event, names }) {
  if (range === null && event === null && names === null) return null;
  const mask = event === null ? new Uint8Array(data.n).fill(1) : descendants(data, event);
  const wanted = names && new Uint8Array(data.header.names.length);
  if (wanted) for (const id of names) wanted[id] = 1;
  for (let i = 0; i < data.n; i++) {
    if (mask[i] && range !== null) mask[i] = overlaps(data, i, range);
    if (mask[i] && wanted) mask[i] = wanted[data.name[i]];
  }
  return mask;
}
function overlaps(data, i, [t0, t1]) {
  const start = data.start[i];
  const end = start + data.dur[i];
  return end === start ? +(start >= t0 && start <= t1) : +(start < t1 && end > t0);
}

// js/memory/controls.js
function buttonChoice(label, entries, current, onChange) {
  const buttons = entries.map(([key, text]) => {
    const press = () => {
      mark(key);
      onChange(key);
    };
    const isPressed = String(key === current);
    const attributes2 = {
      type: "button",
      class: "cl-button",
      "data-key": key,
      "aria-pressed": isPressed,
      onclick: press
    };
    return element("button", attributes2, text);
  });
  const mark = (key) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
  };
  const attributes = { class: "mm-choice", role: "group", "aria-label": label };
  return { group: element("div", attributes, element("span", { class: "mm-muted" }, label), ...buttons), mark };
}
function actionButton(text, title, onclick) {
  const label = /[a-z]/i.test(text) ? null : title;
  return element("button", { type: "button", class: "cl-button", title, "aria-label": label, onclick }, text);
}
function seriesLegend() {
  const keys = ["allocated", "active", "reserved"].map(
    (name) => element("span", { class: "mm-key" }, element("i", { class: `mm-line-${name}` }), name)
  );
  return element("p", { class: "mm-legend" }, ...keys);
}

// js/flame/baseline.js
function addBaseline(paths, other) {
  const nodes = nodesOf(paths, other);
  const before = {};
  for (const [weight, self] of Object.entries(other.self)) {
    const sums = new Float64Array(paths.parent.length);
    self.forEach((value, k) => {
      sums[nodes[k]] += value;
    });
    for (let k = sums.length - 1; k > 0; k--) sums[paths.parent[k]] += sums[k];
    before[weight] = sums;
  }
  paths.before = before;
}
function nodesOf(paths, { parent, label }) {
  const known = /* @__PURE__ */ new Map();
  for (let k = 1; k < paths.parent.length; k++) {
    known.set(`${paths.parent[k]} ${paths.labels[paths.label[k]]}`, k);
  }
  const nodes = [];
  parent.forEach((above, k) => {
    const from = above < 0 ? 0 : nodes[above];
    const key = `${from} ${label[k]}`;
    const node = known.get(key) ?? addNode(paths, from, label[k]);
    known.set(key, node);
    nodes.push(node);
  });
  return nodes;
}
function addNode(paths, parent, text) {
  const node = paths.parent.length;
  paths.parent.push(parent);
  paths.depth.push(paths.depth[parent] + 1);
  paths.label.push(paths.labels.push(text) - 1);
  paths.sample.push(-1);
  paths.children.push([]);
  paths.children[parent].push(node);
  return node;
}

// js/flame/draw.js
var ROW_HEIGHT3 = 19;
var MAX_HEIGHT2 = 420;
var MIN_BOX_PX = 0.8;
var MIN_CHAIN = 4;
var MAX_CHAIN_ROW = 2;
var CHAIN_SHARE = 0.99;
var FLAME_COLORS = {
  light: ["#f3b562", "#f0a06a", "#eec57c", "#e9927a", "#f6d08f"],
  dark: ["#a8642a", "#9c5230", "#8f6b2f", "#a14b3f", "#b07a35"]
};
var INK = { light: "#000000", dark: "#ffffff" };
var MATCH_COLOR = { light: "#b79cf0", dark: "#7a5cc4" };
function layoutBoxes({ parent: above, weight, children }, root, width) {
  const boxes = callersOf(above, root, width);
  const scale = width / Math.max(weight[root], 1);
  const open = [{ node: root, x: 0, row: boxes.length }];
  for (let parent = open.pop(); parent; parent = open.pop()) {
    let { x } = parent;
    const { row } = parent;
    for (const node of [...children[parent.node]].sort((a, b) => weight[b] - weight[a])) {
      const wide = weight[node] * scale;
      if (wide < MIN_BOX_PX) break;
      const chain = parent.row <= MAX_CHAIN_ROW ? chainOf(children, weight, node) : [node];
      const isFolded = chain.length >= MIN_CHAIN;
      const shown = isFolded ? chain[chain.length - 1] : node;
      boxes.push({ node: shown, x, width: wide, row, folded: isFolded ? chain.length : 0 });
      open.push({ node: shown, x, row: row + 1 });
      x += wide;
    }
  }
  return boxes;
}
function callersOf(above, root, width) {
  const callers = [];
  for (let k = root; k >= 0; k = above[k]) callers.unshift(k);
  const isFolded = callers.length > MIN_CHAIN + 1;
  const shown = isFolded ? [callers[0], above[root], root] : callers;
  return shown.map((node, row) => ({ node, x: 0, width, row, folded: isFolded && row === 1 ? callers.length - 2 : 0 }));
}
function chainOf(children, weight, node) {
  const chain = [node];
  for (let k = node; ; ) {
    const next = children[k].find((child) => weight[child] >= CHAIN_SHARE * weight[k]);
    if (next === void 0 || !children[next].length) return chain;
    chain.push(next);
    k = next;
  }
}
function paintFlame(canvas, boxes, picture) {
  const height = ROW_HEIGHT3 * (1 + boxes.reduce((most, { row }) => Math.max(most, row), 0));
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.floor(picture.width * ratio);
  canvas.height = Math.floor(height * ratio);
  canvas.style.width = `${picture.width}px`;
  canvas.style.height = `${height}px`;
  const context = contextOf(canvas);
  const style = getComputedStyle(canvas);
  context.scale(ratio, ratio);
  context.font = `11px ${style.fontFamily}`;
  context.textBaseline = "middle";
  for (const box of boxes) paintBox(context, box, picture);
  const focused = boxes.find(({ node }) => node === picture.focus);
  if (focused) outline2(context, focused, style.color);
}
function paintBox(context, { node, x, width, row, folded }, { graph, root, query, theme, options }) {
  const text = folded ? `${folded} callers, to ${options.textOf(node)}` : options.textOf(node);
  const isMatch = query !== "" && text.toLowerCase().includes(query);
  const isCaller = node !== root && row <= graph.depth[root];
  const [fill2, ink] = colorsOf(graph, node, text, theme, options);
  const top = row * ROW_HEIGHT3;
  context.globalAlpha = query && !isMatch ? 0.4 : isCaller ? 0.6 : 1;
  context.fillStyle = isMatch ? MATCH_COLOR[theme] : fill2;
  context.fillRect(x, top, Math.max(width - 1, 0.6), ROW_HEIGHT3 - 1);
  context.globalAlpha = 1;
  if (width <= 30) return;
  context.save();
  context.beginPath();
  context.rect(x, top, width - 3, ROW_HEIGHT3);
  context.clip();
  context.fillStyle = isMatch || context.globalAlpha < 1 ? INK[theme] : ink;
  context.fillText(`${text}  ${options.format(graph.weight[node])}`, x + 4, top + ROW_HEIGHT3 / 2);
  context.restore();
}
function outline2(context, { x, width, row }, color) {
  context.strokeStyle = color;
  context.lineWidth = 2;
  context.strokeRect(x + 1, row * ROW_HEIGHT3 + 1, Math.max(width - 3, 1), ROW_HEIGHT3 - 3);
}
function colorsOf({ weight, before }, node, text, theme, { colorOf }) {
  if (before) {
    const change = (weight[node] - before[node]) / Math.max(weight[node], before[node], 1);
    const share = Math.round(Math.min(1, Math.abs(change)) * 80);
    const [hue, plain] = [change > 0 ? "#d1493f" : "#2f6fd0", theme === "dark" ? "#4a525c" : "#dfe3e8"];
    return [`color-mix(in srgb, ${hue} ${share}%, ${plain})`, theme === "dark" || share > 55 ? "#ffffff" : "#000000"];
  }
  if (colorOf)
    return node ? colorOf(node, text, theme) : theme === "dark" ? ["#4a525c", "#ffffff"] : ["#dfe3e8", "#000000"];
  const colors = FLAME_COLORS[theme];
  return [colors[node ? nameHash(text) % colors.length : 0], INK[theme]];
}

// js/flame/flame.js
function createFlame(host, options) {
  const flame = createState2(host, options);
  const tools = element("div", { class: "mm-tools" }, flame.input, flame.reset, flame.found);
  host.replaceChildren(tools, flame.stage, flame.spoken);
  listenToFlame(flame);
  return {
    show(graph) {
      if (flame.graph?.parent !== graph.parent) Object.assign(flame, { root: 0, focus: -1 });
      flame.graph = graph;
      flame.reset.hidden = flame.root === 0;
      if (flame.query) searchNodes(flame, flame.input.value);
      requestPaint(flame);
    },
    zoom: (node) => zoomToNode(flame, node),
    search(text) {
      flame.input.value = text;
      searchNodes(flame, text);
    },
    get graph() {
      return flame.graph;
    },
    get root() {
      return flame.root;
    },
    boxes: () => flame.boxes,
    textOf: (node) => flame.graph ? options.textOf(node) : "",
    setTheme(theme) {
      flame.theme = theme;
      requestPaint(flame);
    },
    resize() {
      if (host.clientWidth !== flame.width) requestPaint(flame);
    },
    destroy() {
      cancelAnimationFrame(flame.pending);
      host.replaceChildren();
    }
  };
}
function createState2(host, options) {
  const canvas = element("canvas", {
    class: "mm-flame-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": `${options.label}. Arrow keys go between nodes, Enter zooms, Escape shows all.`,
    "data-lm-suppress-shortcuts": "true"
  });
  const scroller = element("div", { class: "mm-flame-scroll" }, canvas);
  scroller.style.maxHeight = `${MAX_HEIGHT2}px`;
  const tip = element("div", { class: "mm-tip", hidden: true });
  return {
    options,
    host,
    input: element("input", {
      type: "search",
      class: "mm-search",
      placeholder: options.placeholder,
      "aria-label": options.searchLabel,
      "data-lm-suppress-shortcuts": "true"
    }),
    reset: element("button", { type: "button", class: "cl-button", hidden: true }, "Whole graph"),
    found: element("span", { class: "mm-muted", "aria-live": "polite" }),
    scroller,
    stage: element("div", { class: "mm-flame-stage" }, scroller, tip),
    canvas,
    tip,
    spoken: element("p", { class: "mm-said", "aria-live": "polite" }),
    theme: options.theme,
    graph: null,
    root: 0,
    focus: -1,
    query: "",
    boxes: [],
    width: 0,
    pending: 0
  };
}
function requestPaint(flame) {
  const { graph } = flame;
  if (flame.pending || !graph) return;
  flame.pending = requestAnimationFrame(() => {
    flame.pending = 0;
    paintNow2(flame);
  });
}
function paintNow2(flame) {
  const { canvas, options, graph, root, focus, query, theme } = flame;
  if (!graph) return;
  flame.width = Math.max(flame.host.clientWidth || flame.width, 160);
  flame.boxes = layoutBoxes(graph, root, flame.width);
  paintFlame(canvas, flame.boxes, { graph, root, focus, query, theme, width: flame.width, options });
}
function zoomToNode(flame, node) {
  flame.root = node;
  flame.reset.hidden = node === 0;
  flame.tip.hidden = true;
  requestPaint(flame);
  flame.options.onZoom(node);
}
function searchNodes(flame, text) {
  flame.query = text.trim().toLowerCase();
  requestPaint(flame);
  flame.found.textContent = flame.query && flame.graph ? matchText(flame, flame.graph) : "";
}
function matchText({ options, query }, graph) {
  const n = graph.parent.length;
  const [isHit, isInside] = [new Uint8Array(n), new Uint8Array(n)];
  let [weight, num] = [0, 0];
  for (let k = 1; k < n; k++) {
    const up = graph.parent[k];
    isHit[k] = options.textOf(k).toLowerCase().includes(query) ? 1 : 0;
    isInside[k] = isInside[up] || isHit[up] ? 1 : 0;
    if (!isHit[k] || isInside[k]) continue;
    weight += graph.weight[k];
    num += graph.num[k];
  }
  return num ? amountText(options, graph, weight, num) : "nothing fits";
}
function amountText(options, graph, weight, num) {
  const share = graph.weight[0] ? 100 * weight / graph.weight[0] : 0;
  return options.amountOf(weight, num).replace("%", formatPercent(share));
}
function listenToFlame(flame) {
  const { canvas, tip, input } = flame;
  flame.reset.addEventListener("click", () => zoomToNode(flame, 0));
  input.addEventListener("input", () => searchNodes(flame, input.value));
  canvas.addEventListener("click", (event) => {
    const box = boxAt(flame, event);
    if (box) zoomToNode(flame, box.node);
  });
  canvas.addEventListener("pointermove", (event) => showTip2(flame, event));
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("keydown", (event) => {
    if (!flame.graph || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!pressed2(flame, flame.graph, event.key)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}
function boxAt({ canvas, boxes }, event) {
  const place = canvas.getBoundingClientRect();
  const [x, row] = [event.clientX - place.left, Math.floor((event.clientY - place.top) / ROW_HEIGHT3)];
  return boxes.find((box) => box.row === row && box.x <= x && x < box.x + Math.max(box.width, 1));
}
function showTip2(flame, event) {
  const { tip, graph, stage } = flame;
  const box = boxAt(flame, event);
  tip.hidden = !box;
  if (!box || !graph) return;
  tip.replaceChildren(...describeNode(flame, graph, box.node).map((line) => element("div", {}, line)));
  const place = stage.getBoundingClientRect();
  tip.style.left = `${Math.max(Math.min(event.clientX - place.left + 12, flame.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = `${event.clientY - place.top + 16}px`;
}
function describeNode({ options }, graph, node) {
  const lines = [options.textOf(node), amountText(options, graph, graph.weight[node], graph.num[node])];
  if (graph.before) {
    const change = graph.weight[node] - graph.before[node];
    lines.push(`${change < 0 ? "−" : "+"}${options.format(Math.abs(change))} against the other run`);
  }
  return [...lines, ...options.notesOf?.(node) ?? []].filter(Boolean);
}
function nodeOfKey({ boxes, focus }, { parent }, key) {
  const box = boxes.find(({ node }) => node === focus) ?? boxes[0];
  const row = boxes.filter((one) => one.row === box.row).sort((a, b) => a.x - b.x);
  const beside = (by) => row[Math.min(Math.max(row.indexOf(box) + by, 0), row.length - 1)].node;
  if (key === "ArrowUp") return Math.max(parent[box.node], 0);
  if (key === "ArrowLeft") return beside(-1);
  if (key === "ArrowRight") return beside(1);
  if (key !== "ArrowDown") return null;
  const callees = boxes.filter(({ node }) => parent[node] === box.node).sort((a, b) => b.width - a.width);
  return callees.length ? callees[0].node : box.node;
}
function pressed2(flame, graph, key) {
  const next = nodeOfKey(flame, graph, key);
  if (next !== null) {
    flame.focus = flame.focus < 0 ? flame.boxes[0].node : next;
    flame.spoken.textContent = describeNode(flame, graph, flame.focus).join(", ");
    requestPaint(flame);
  } else if ((key === "Enter" || key === " ") && flame.focus >= 0) zoomToNode(flame, flame.focus);
  else if (key === "Escape" && flame.root) zoomToNode(flame, 0);
  else return false;
  return true;
}

// js/flame/paths.js
var DEVICE_CATS2 = /* @__PURE__ */ new Set(["kernel", "gpu_memcpy", "gpu_memset"]);
function groupingsOf(data) {
  const has = (name) => data.header.details.some((column2) => column2.name === name);
  const all = [
    ["tree", "call tree", true],
    ["python", "Python", data.header.cats.includes("python_function")],
    ["stack", "call stacks", has("stack")],
    ["module", "modules", has("module")]
  ];
  return all.flatMap(([key, text, isKnown]) => isKnown ? [[key, text]] : []);
}
function callPaths(data, by) {
  const tree = createTree(data);
  const { n, header } = data;
  const isDeviceLane = header.lanes.map(({ kind }) => kind === "device");
  const startOf = by === "stack" || by === "module" ? chainsOf(tree, data, by) : null;
  const isPython = header.cats.map((cat) => cat === "python_function");
  const isTrace = header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < n; i++) {
    if (isDeviceLane[data.lane[i]] || isTrace[data.cat[i]]) continue;
    const own = startOf ? startOf(i) : -1;
    const above = data.parent[i] < 0 ? -1 : tree.nodeOf[data.parent[i]];
    const from = own >= 0 ? own : above >= 0 ? above : startOf ? tree.none : 0;
    tree.nodeOf[i] = by === "python" && !isPython[data.cat[i]] ? from : tree.add(from, tree.labelOf[data.name[i]], i);
  }
  const isWork = header.cats.map((cat) => DEVICE_CATS2.has(cat));
  for (let i = 0; i < n; i++) {
    if (!isDeviceLane[data.lane[i]] || !isWork[data.cat[i]] || data.flags[i] & EVENT_FLAGS.instant) continue;
    const call = data.launch[i];
    const unknown = startOf ? tree.add(0, tree.text("(no launch)"), -1) : 0;
    const from = call < 0 ? unknown : Math.max(tree.nodeOf[call], 0);
    tree.nodeOf[i] = tree.add(from, tree.labelOf[data.name[i]], i);
  }
  const { parent, depth, label, labels, sample, nodeOf } = tree;
  return { parent, depth, label, labels, sample, nodeOf, children: childrenOf(parent) };
}
function createTree(data) {
  const labels = [...data.header.names];
  const [steps, first] = [new Set(data.header.step_names), labels.length];
  if (steps.size) labels.push("ProfilerStep*");
  const known = /* @__PURE__ */ new Map();
  const texts = /* @__PURE__ */ new Map();
  const stride = 2 ** 24;
  const tree = {
    parent: [-1],
    depth: [0],
    label: [-1],
    sample: [-1],
    labels,
    labelOf: data.header.names.map((_, id) => steps.has(id) ? first : id),
    nodeOf: new Int32Array(data.n).fill(-1),
    none: 0,
    /**
     * Label of a text that is not a name of the trace.
     *
     * @param {string} text
     */
    text(text) {
      const at = texts.get(text) ?? labels.push(text) - 1;
      texts.set(text, at);
      return at;
    },
    /**
     * @param {number} parent
     * @param {number} label
     * @param {number} event An example; -1 for none.
     */
    add(parent, label, event) {
      const key = parent * stride + label;
      let node = known.get(key);
      if (node === void 0) {
        node = tree.parent.length;
        known.set(key, node);
        tree.parent.push(parent);
        tree.depth.push(tree.depth[parent] + 1);
        tree.label.push(label);
        tree.sample.push(event);
      }
      return node;
    }
  };
  return tree;
}
function chainsOf(tree, data, by) {
  tree.none = tree.add(0, tree.text(`(no ${by})`), -1);
  const chains = /* @__PURE__ */ new Map();
  const read = data.detailOf(by);
  return (i) => {
    const value = read(i);
    if (value === null) return -1;
    const text = String(value);
    let node = chains.get(text);
    if (node === void 0) {
      const parts = by === "stack" ? text.split("\n").reverse() : text.split(".");
      node = parts.filter(Boolean).reduce((above, part) => tree.add(above, tree.text(part), -1), 0);
      chains.set(text, node);
    }
    return node;
  };
}
function childrenOf(parent) {
  const children = parent.map(() => []);
  for (let k = 1; k < parent.length; k++) children[parent[k]].push(k);
  return children;
}
function textOfNode(data, { label, labels }, node) {
  if (!node) return "all";
  return label[node] < data.header.names.length ? shortName(data.header, label[node]) : labels[label[node]];
}

// js/flame/weights.js
function weightsOf({ header, memory }) {
  const all = [];
  if (header.lanes.some(({ kind, count }) => kind === "device" && count)) all.push(["device", "GPU time"]);
  if (header.lanes.some(({ kind, count }) => kind === "host" && count)) all.push(["host", "CPU time"]);
  const { n, num_actions: num } = header.memory;
  if (n === num && memory.some(({ event }) => event.some((at) => at >= 0))) all.push(["memory", "allocated bytes"]);
  return all;
}
function nodeSums(data, paths, by, mask, range) {
  const { parent, nodeOf } = paths;
  const sums = { weight: new Float64Array(parent.length), num: new Float64Array(parent.length) };
  if (by === "memory") addAllocations(data, nodeOf, mask, range, sums);
  else addTimes(data, nodeOf, by === "device", mask, range, sums);
  const { weight, num } = sums;
  for (let k = parent.length - 1; k > 0; k--) {
    weight[parent[k]] += weight[k];
    num[parent[k]] += num[k];
  }
  return sums;
}
function addTimes(data, nodeOf, isDevice, mask, range, { weight, num }) {
  const { n, lane, header, flags } = data;
  const onDevice = header.lanes.map(({ kind }) => kind === "device");
  const own = isDevice ? null : range === null ? data.self : selfWithin(data, range);
  const skip = EVENT_FLAGS.instant | EVENT_FLAGS.waiting;
  for (let i = 0; i < n; i++) {
    const node = nodeOf[i];
    if (node < 0 || onDevice[lane[i]] !== isDevice || flags[i] & skip || mask !== null && !mask[i]) continue;
    const value = own ? own[i] : range === null ? data.dur[i] : within(data, i, range);
    if (value > 0) weight[node] += value;
    num[node] += 1;
  }
}
function within({ start, dur }, i, [t0, t1]) {
  return Math.max(0, Math.min(start[i] + dur[i], t1) - Math.max(start[i], t0));
}
function selfWithin(data, range) {
  const own = new Float64Array(data.n);
  for (let i = 0; i < data.n; i++) {
    const value = within(data, i, range);
    own[i] += value;
    if (data.parent[i] >= 0) own[data.parent[i]] -= value;
  }
  return own;
}
function addAllocations({ memory }, nodeOf, mask, range, { weight, num }) {
  const gpus = memory.filter(({ label }) => label !== "cpu");
  for (const { ts, bytes, action, actions, event } of gpus.length ? gpus : memory) {
    for (let k = 0; k < ts.length; k++) {
      const node = event[k] < 0 ? -1 : nodeOf[event[k]];
      if (node < 0 || !actions[action[k]].startsWith("alloc") || !(bytes[k] > 0)) continue;
      if (mask !== null && !mask[event[k]] || range !== null && (ts[k] < range[0] || ts[k] > range[1])) continue;
      weight[node] += bytes[k];
      num[node] += 1;
    }
  }
}

// js/flame/time_flame.js
function createTimeFlame(host, data, { theme, baseline, onEvent }) {
  const [groupings, weights] = [groupingsOf(data), weightsOf(data)];
  const state = {
    data,
    known: /* @__PURE__ */ new Map(),
    by: groupings[0][0],
    weight: weights[0]?.[0] ?? "host",
    selection: { range: null, event: null, names: null },
    isCompared: baseline !== null,
    baseline,
    tones: tonesOf(theme)
  };
  const change = (changes) => {
    Object.assign(state, changes);
    refresh();
  };
  const by = buttonChoice("By", groupings, state.by, (key) => change({ by: key }));
  const weight = buttonChoice("Width", weights, state.weight, (key) => change({ weight: key }));
  const jump = actionButton("Show in the timeline", "Select the longest call of this node in the timeline", () => {
    const event = longestOf(state, flame.root);
    if (event >= 0) onEvent(event);
  });
  const note = element("p", { class: "mm-muted cl-flame-note", role: "status" });
  const graph = element("div", { class: "cl-flame-graph" });
  host.replaceChildren(
    element("div", { class: "mm-tools" }, by.group, weight.group, ...comparison(state, change), jump),
    note,
    graph
  );
  const flame = createFlame(graph, {
    theme,
    label: "Costs by call path",
    placeholder: "Search names",
    searchLabel: "Search call paths",
    textOf: (node) => textOfNode(data, pathsOf(state), node),
    amountOf: (value, num) => `${formatOf(state)(value)} (%), ${formatPlural(num, unitOf2(state))}`,
    format: (value) => formatOf(state)(value),
    notesOf: (node) => [fullName(state, node)],
    colorOf: (node, text) => colorsOf2(state, node, text),
    onZoom(node) {
      jump.hidden = node === 0;
    }
  });
  jump.hidden = true;
  const refresh = () => {
    const paths = pathsOf(state);
    const mask = selectedMask(data, { ...state.selection, names: null });
    const { weight: sums, num } = nodeSums(data, paths, state.weight, mask, state.selection.range);
    const shown = { parent: paths.parent, depth: paths.depth, children: paths.children, weight: sums, num };
    const before = comparedWith(state, paths);
    flame.show(before ? { ...shown, before } : shown);
    note.textContent = noteOf(state, sums[0]);
  };
  refresh();
  return {
    flame,
    get paths() {
      return pathsOf(state);
    },
    update: (selection) => change({ selection }),
    setGrouping(key) {
      by.mark(key);
      change({ by: key });
    },
    setWeight(key) {
      weight.mark(key);
      change({ weight: key });
    },
    setTheme(name) {
      state.tones = tonesOf(name);
      flame.setTheme(name);
    },
    resize: () => flame.resize(),
    destroy: () => flame.destroy()
  };
}
function pathsOf({ data, known, by, baseline }) {
  const paths = known.get(by) ?? callPaths(data, by);
  if (!known.has(by) && baseline && by === "tree") addBaseline(paths, baseline);
  known.set(by, paths);
  return paths;
}
function comparedWith({ by, weight, selection, isCompared }, paths) {
  if (!isCompared || by !== "tree" || selection.range || selection.event !== null) return void 0;
  return paths.before?.[weight];
}
function comparison(state, change) {
  if (!state.baseline) return [];
  const entries = [
    ["yes", `against ${state.baseline.name}`],
    ["no", "this run"]
  ];
  return [buttonChoice("Colours", entries, "yes", (key) => change({ isCompared: key === "yes" })).group];
}
function noteOf(state, whole) {
  const { range, event } = state.selection;
  const part = range ? `of the selected ${formatDuration(range[1] - range[0])}` : event === null ? "of the whole trace" : "within the selected event";
  const against = state.isCompared && state.baseline && state.by === "tree" ? "; red: more than in the other run, blue: less" : "";
  return `${formatOf(state)(whole)} ${part}${against}`;
}
function formatOf({ weight }) {
  return weight === "memory" ? formatBytes : formatDuration;
}
function unitOf2({ weight }) {
  return weight === "memory" ? "allocation" : weight === "device" ? "kernel" : "call";
}
function fullName(state, node) {
  const paths = pathsOf(state);
  const name = node ? paths.labels[paths.label[node]] : "";
  return name === textOfNode(state.data, paths, node) ? "" : name.slice(0, 400);
}
function colorsOf2(state, node, text) {
  const event = pathsOf(state).sample[node];
  const { data, tones } = state;
  const cat = event < 0 ? "python_function" : data.header.cats[data.cat[event]];
  const tone = groupOf(cat, text) * NUM_SHADES + nameHash(text) % NUM_SHADES;
  return [tones.css[tone], tones.ink[tone]];
}
function longestOf(state, root) {
  const { data } = state;
  const { parent, nodeOf } = pathsOf(state);
  const inside = new Uint8Array(parent.length);
  inside[root] = 1;
  for (let k = root + 1; k < parent.length; k++) inside[k] = inside[parent[k]];
  let [best, own] = [-1, -1];
  for (let i = 0; i < data.n; i++) {
    if (nodeOf[i] < 0 || !inside[nodeOf[i]]) continue;
    if (best < 0 || data.dur[i] > data.dur[best]) best = i;
    if (nodeOf[i] === root && (own < 0 || data.dur[i] > data.dur[own])) own = i;
  }
  return own >= 0 ? own : best;
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

// js/graphs/graphs.js
var FOLDS = "details.cg-fold";
var ROWS = "details.cg-row";
function createGraphs(host, model) {
  const state = { model, host, traced: null, paths: [] };
  host.replaceChildren(...model.body.map(buildElement));
  const [tree] = findAll(host, ".cg-frame", HTMLElement);
  if (tree) {
    if (tree.querySelectorAll(".cg-stop, .cg-fold").length > 1) tree.before(treeTools(tree));
    tree.addEventListener("keydown", (event) => onTreeKey(event, tree));
  }
  startPaths(state);
  return {
    trace: (k) => tracePath(state, k),
    setTheme() {
    },
    destroy: () => host.replaceChildren()
  };
}
function treeTools(tree) {
  const open = (selector, isOpen) => {
    for (const node of findAll(tree, selector, HTMLDetailsElement)) node.open = isOpen;
  };
  const button = (text, onclick) => element("button", { type: "button", class: "cl-button", onclick }, text);
  const tools = element("div", { class: "cg-tools", role: "group", "aria-label": "Graph tree" });
  if (tree.querySelector(FOLDS)) tools.append(button("Unfold all", () => open(FOLDS, true)));
  tools.append(
    button("Open all", () => open(ROWS, true)),
    button("Close all", () => {
      open(ROWS, false);
      open(FOLDS, false);
    })
  );
  if (tree.querySelector(".cg-stop.is-current")) tools.append(button("Go to current", () => goToCurrent(tree)));
  return tools;
}
function goToCurrent(tree) {
  const [row] = findAll(tree, ".cg-stop.is-current > .cg-row > summary", HTMLElement);
  if (!row) return;
  openAround(row);
  row.focus({ preventScroll: true });
  scrollTreeTo(tree, row);
}
function openAround(node) {
  for (let at = (
    /** @type {HTMLElement | null} */
    node
  ); at; at = at.parentElement) {
    if (at instanceof HTMLDetailsElement && at.matches(FOLDS)) at.open = true;
  }
}
function scrollTreeTo(tree, node) {
  const top = node.getBoundingClientRect().top - tree.getBoundingClientRect().top;
  if (top < 0 || top + node.offsetHeight > tree.clientHeight) tree.scrollTop += top - tree.clientHeight / 3;
}
function onTreeKey(event, tree) {
  const at = event.target;
  if (!(at instanceof HTMLElement) || at.tagName !== "SUMMARY") return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = findAll(tree, "summary", HTMLElement).filter((row) => row.getClientRects().length);
  const k = rows.indexOf(at);
  const steps = { ArrowDown: k + 1, ArrowUp: k - 1, Home: 0, End: rows.length - 1 };
  const isOpening = event.key === "ArrowRight";
  if (event.key in steps) {
    const next = rows[Math.min(Math.max(steps[event.key], 0), rows.length - 1)];
    next.focus({ preventScroll: true });
    scrollTreeTo(tree, next);
  } else if (isOpening || event.key === "ArrowLeft") at.parentElement?.toggleAttribute("open", isOpening);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
function startPaths(state) {
  const items = [...state.host.querySelectorAll(".cudalens-graph-paths li")].slice(0, state.model.paths.length);
  state.paths = items.map((item, k) => {
    const press = () => tracePath(state, state.traced === k ? null : k);
    const attributes = { type: "button", "aria-pressed": "false", title: "Show this path in the tree", onclick: press };
    const button = element("button", attributes);
    button.append(...item.childNodes);
    item.replaceChildren(button);
    return button;
  });
}
function tracePath(state, k) {
  const { host, model, paths } = state;
  state.traced = k;
  for (const [j, button] of paths.entries()) button.setAttribute("aria-pressed", String(j === k));
  for (const stop of host.querySelectorAll(".is-traced")) stop.classList.remove("is-traced");
  const nodes = k === null ? [] : model.paths[k] ?? [];
  const stops = nodes.flatMap((node) => findAll(host, `.cg-n${Number(node)}`, HTMLElement).slice(0, 1));
  for (const stop of stops) {
    stop.classList.add("is-traced");
    openAround(stop);
  }
  const [tree] = findAll(host, ".cg-frame", HTMLElement);
  if (stops.length) scrollTreeTo(tree, stops[0]);
}

// js/memory/curve_axis.js
function placeOfRow({ clock }, row) {
  if (clock === null) return row + 1;
  return row < 0 ? 0 : clock[row];
}
function rowAtPlace({ clock, data }, place) {
  if (clock !== null) return rowAtTime(clock, place);
  return Math.min(Math.max(Math.floor(place) - 1, -1), data.numRows - 1);
}
function rowAtTime(clock, time) {
  let [low, high] = [0, clock.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (clock[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function wholeRange({ clock, data }) {
  const end = clock === null ? data.numRows : clock[data.numRows - 1] ?? 0;
  return [0, Math.max(end * 1.005, 1)];
}
function xOfRow(curve, row) {
  const [from, to] = curve.view;
  return (placeOfRow(curve, row) - from) / (to - from) * curve.width;
}

// js/memory/curve_draw.js
var CURVE_HEIGHT = 170;
var AXIS_HEIGHT = 20;
var TOP_MARGIN = 18;
var BOTTOM = CURVE_HEIGHT - AXIS_HEIGHT;
var CURVE_COLORS = {
  light: {
    allocated: "#0b62c4",
    active: "#b35c00",
    reserved: "#6b7683",
    grid: "#e3e8ed",
    paper: "#ffffff",
    mark: "#b3261e",
    cursor: "#1b1f24",
    range: "rgba(11,98,196,.14)"
  },
  dark: {
    allocated: "#6cb6ff",
    active: "#f0a050",
    reserved: "#9aa5b1",
    grid: "#2a3138",
    paper: "#111418",
    mark: "#ff8a80",
    cursor: "#e6e9ed",
    range: "rgba(108,182,255,.2)"
  }
};
var SERIES = ["reserved", "active", "allocated"];
function envelopeOf(curve, values) {
  const columns = Math.ceil(curve.width);
  const [from, to] = curve.view;
  const out = { low: new Float64Array(columns), high: new Float64Array(columns) };
  let row = rowAtPlace(curve, from);
  for (let x = 0; x < columns; x++) {
    const end = rowAtPlace(curve, from + (x + 1) * (to - from) / columns);
    let [low, high] = [values[row + 1], values[row + 1]];
    for (let k = row + 1; k <= end; k++) {
      const value = values[k + 1];
      if (value < low) low = value;
      if (value > high) high = value;
    }
    out.low[x] = low;
    out.high[x] = high;
    row = end;
  }
  return out;
}
function paintCurves(curve) {
  const { canvas, shown, width, ratio } = curve;
  if (shown === null) return;
  const context = contextOf(canvas);
  const style = getComputedStyle(canvas);
  const envelopes = SERIES.map((name) => envelopeOf(curve, shown.curves[name]));
  let most = 1;
  for (const { high } of envelopes) for (const value of high) if (value > most) most = value;
  const y = (bytes) => BOTTOM - Math.max(bytes, 0) / (most * 1.04) * (BOTTOM - TOP_MARGIN);
  const brush = { context, colors: CURVE_COLORS[curve.theme], ink: style.color, y };
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, CURVE_HEIGHT);
  context.font = `11px ${style.fontFamily}`;
  paintBytesAxis(curve, brush, most);
  paintTimeAxis(curve, brush);
  SERIES.forEach((name, k) => {
    paintSeries(brush, envelopes[k], brush.colors[name], name === "allocated");
  });
  writeBytesAxis(brush, most);
  for (const mark of shown.marks) paintMark(curve, brush, mark);
  paintPeak(curve, brush, shown.peak);
}
function paintSeries({ context, y }, { low, high }, color, isFilled) {
  const n = high.length;
  setColor(context, color);
  context.beginPath();
  context.moveTo(0, y(low[0]));
  for (let x = 0; x < n; x++) {
    context.lineTo(x + 0.5, y(high[x]));
    if (high[x] !== low[x]) context.lineTo(x + 0.5, y(low[x]));
  }
  context.lineWidth = isFilled ? 1.5 : 1.25;
  context.stroke();
  if (!isFilled) return;
  context.lineTo(n, y(0));
  context.lineTo(0, y(0));
  context.globalAlpha = 0.14;
  context.fill();
  context.globalAlpha = 1;
}
function setColor(context, color) {
  context.strokeStyle = color;
  context.fillStyle = color;
}
function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough * 0.999) ?? 10 * power;
}
function paintBytesAxis({ width }, { context, colors, y }, most) {
  context.lineWidth = 1;
  context.strokeStyle = colors.grid;
  context.globalAlpha = 1;
  for (const value of byteTicks(most)) {
    const at = Math.round(y(value)) + 0.5;
    context.beginPath();
    context.moveTo(0, at);
    context.lineTo(width, at);
    context.stroke();
  }
}
function byteTicks(most) {
  const step = 2 ** Math.floor(Math.log2(most / 2.5));
  return Array.from({ length: Math.floor(most * 1.02 / step) }, (_, k) => (k + 1) * step);
}
function writeBytesAxis({ context, colors, ink, y }, most) {
  context.textBaseline = "bottom";
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = colors.paper;
  context.fillStyle = ink;
  for (const value of byteTicks(most)) {
    const at = Math.round(y(value)) - 0.5;
    context.strokeText(formatBytes(value), 3, at);
    context.fillText(formatBytes(value), 3, at);
  }
}
function paintTimeAxis({ width, view, clock }, { context }) {
  const step = Math.max(roundStep((view[1] - view[0]) / Math.max(width / 130, 2)), 1);
  context.textBaseline = "top";
  for (let place = Math.ceil(view[0] / step) * step; place <= view[1]; place += step) {
    const x = (place - view[0]) / (view[1] - view[0]) * width;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, BOTTOM);
    context.lineTo(Math.round(x) + 0.5, BOTTOM + 4);
    context.stroke();
    const time = place ? formatDuration(place) : "0";
    const text = clock === null ? Math.round(place).toLocaleString("en-US") : time;
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), BOTTOM + 6);
  }
}
function isInView(curve, row) {
  const place = placeOfRow(curve, row);
  return place >= curve.view[0] && place <= curve.view[1];
}
function paintMark(curve, { context, colors, ink }, { row, kind }) {
  if (!isInView(curve, row)) return;
  const x = xOfRow(curve, row);
  const isFailed = kind === "oom";
  setColor(context, isFailed ? colors.mark : ink);
  context.setLineDash(isFailed ? [] : [3, 3]);
  context.beginPath();
  context.moveTo(x, TOP_MARGIN - 2);
  context.lineTo(x, BOTTOM);
  context.stroke();
  context.setLineDash([]);
  context.beginPath();
  context.moveTo(x - 5, TOP_MARGIN - 10);
  context.lineTo(x + 5, TOP_MARGIN - 10);
  context.lineTo(x, TOP_MARGIN - 2);
  context.fill();
}
function paintPeak(curve, { context, colors, y }, { row, bytes }) {
  if (!isInView(curve, row)) return;
  const [x, top] = [Math.max(xOfRow(curve, row), 3), y(bytes)];
  context.fillStyle = colors.allocated;
  context.beginPath();
  context.arc(x, top, 4, 0, 7);
  context.fill();
  const text = `peak ${formatBytes(bytes)}`;
  context.font = `600 ${context.font}`;
  const room = context.measureText(text).width + 8;
  context.textBaseline = "bottom";
  context.fillText(text, x + room > curve.width ? x - room : x + 7, Math.max(top - 3, 12));
}
function paintCursor(curve) {
  const context = contextOf(curve.over);
  const colors = CURVE_COLORS[curve.theme];
  context.setTransform(curve.ratio, 0, 0, curve.ratio, 0, 0);
  context.clearRect(0, 0, curve.width, CURVE_HEIGHT);
  const x = xOfRow(curve, curve.row);
  if (curve.since !== null) {
    const from = xOfRow(curve, curve.since);
    context.fillStyle = colors.range;
    context.fillRect(Math.min(from, x), TOP_MARGIN - 4, Math.abs(x - from), BOTTOM - TOP_MARGIN + 4);
  }
  setColor(context, colors.cursor);
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, TOP_MARGIN - 6);
  context.lineTo(x, BOTTOM);
  context.stroke();
  context.beginPath();
  context.arc(x, BOTTOM, 3.5, 0, 7);
  context.fill();
}

// js/memory/curve.js
function createCurve(host, data, options) {
  const curve = createState3(host, data, options);
  const { canvas, over, tip } = curve;
  host.replaceChildren(element("div", { class: "mm-curve-stage" }, canvas, over), tip);
  listenToCurve(curve);
  return {
    show(curves, peak, marks) {
      curve.shown = { curves, peak, marks };
      resizeCanvases(curve);
    },
    setMoment(row, since) {
      Object.assign(curve, { row, since });
      canvas.setAttribute("aria-valuenow", String(row));
      canvas.setAttribute("aria-valuetext", momentText(data, row));
      if (curve.shown) paintCursor(curve);
    },
    setAxis(isTime) {
      curve.clock = isTime ? data.clock : null;
      setView(curve, wholeRange(curve));
    },
    zoomTo: (view) => setView(curve, view ?? wholeRange(curve)),
    getView: () => curve.view,
    xOf: (row) => xOfRow(curve, row),
    setTheme(theme) {
      curve.theme = theme;
      if (curve.shown) requestPaint2(curve);
    },
    resize() {
      if (curve.shown && host.clientWidth !== curve.width) resizeCanvases(curve);
    },
    stats: () => ({ script: curve.script }),
    destroy() {
      cancelAnimationFrame(curve.pending);
      host.replaceChildren();
    }
  };
}
function createState3(host, data, options) {
  const { clock, numRows } = data;
  const canvas = element("canvas", {
    class: "mm-curve-canvas",
    tabindex: 0,
    role: "slider",
    "aria-label": "Moment of the history",
    "aria-valuemin": -1,
    "aria-valuemax": numRows - 1,
    "aria-valuenow": numRows - 1
  });
  return {
    data,
    options,
    host,
    canvas,
    over: element("canvas", { class: "mm-over", "aria-hidden": "true" }),
    tip: element("div", { class: "mm-tip", hidden: true }),
    theme: options.theme,
    clock,
    view: wholeRange({ clock, data }),
    shown: null,
    row: numRows - 1,
    since: null,
    pointer: null,
    width: 0,
    ratio: 1,
    pending: 0,
    script: []
  };
}
function momentText(data, row) {
  if (row < 0) return "before the first action";
  const action = `action ${(row + 1).toLocaleString("en-US")} of ${data.numRows.toLocaleString("en-US")}`;
  return data.clock ? `${formatDuration(data.clock[row])}, ${action}` : action;
}
function resizeCanvases(curve) {
  curve.width = Math.max(curve.host.clientWidth || curve.width, 160);
  curve.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [curve.canvas, curve.over]) {
    canvas.width = Math.floor(curve.width * curve.ratio);
    canvas.height = Math.floor(CURVE_HEIGHT * curve.ratio);
    canvas.style.width = `${curve.width}px`;
    canvas.style.height = `${CURVE_HEIGHT}px`;
  }
  requestPaint2(curve);
}
function setView(curve, [from, to]) {
  const [, end] = wholeRange(curve);
  const span = Math.min(Math.max(to - from, curve.clock === null ? 4 : 100), end);
  const begin = Math.min(Math.max(from, 0), end - span);
  curve.view = [begin, begin + span];
  requestPaint2(curve);
}
function requestPaint2(curve) {
  if (curve.pending) return;
  curve.pending = requestAnimationFrame(() => {
    curve.pending = 0;
    if (!curve.shown) return;
    const began = performance.now();
    paintCurves(curve);
    paintCursor(curve);
    curve.script.push(performance.now() - began);
  });
}
function choose2({ data, options }, row, since) {
  const clamped = Math.min(Math.max(row, -1), data.numRows - 1);
  options.onMoment(clamped, since === clamped ? null : since);
}
function pointerX({ canvas }, event) {
  return event.clientX - canvas.getBoundingClientRect().left;
}
function rowUnder(curve, event) {
  const [from, to] = curve.view;
  return rowAtPlace(curve, from + pointerX(curve, event) / curve.width * (to - from));
}
function listenToCurve(curve) {
  const { canvas } = curve;
  const endDrag = () => {
    curve.pointer = null;
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !curve.shown) return;
    curve.pointer = { x: event.clientX, row: rowUnder(curve, event) };
    canvas.setPointerCapture(event.pointerId);
    choose2(curve, curve.pointer.row, null);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!curve.shown) return;
    const row = rowUnder(curve, event);
    showTip3(curve, curve.shown.curves, event, row);
    const { pointer } = curve;
    if (!pointer || Math.abs(event.clientX - pointer.x) < 3) return;
    choose2(curve, Math.max(row, pointer.row), Math.min(row, pointer.row));
  });
  canvas.addEventListener("pointerup", endDrag);
  canvas.addEventListener("pointercancel", endDrag);
  canvas.addEventListener("pointerleave", () => {
    curve.tip.hidden = true;
  });
  canvas.addEventListener("wheel", (event) => onWheel(curve, event), { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || !pressed3(curve, event)) return;
    event.preventDefault();
    event.stopPropagation();
  });
}
function onWheel(curve, event) {
  if (!(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  zoomCurve(curve, Math.exp(event.deltaY / 200), pointerX(curve, event) / curve.width);
}
function zoomCurve(curve, factor, share) {
  const [from, to] = curve.view;
  const at = from + (to - from) * share;
  setView(curve, [at - (at - from) * factor, at + (to - at) * factor]);
}
function showTip3(curve, curves, event, row) {
  const { tip } = curve;
  const text = SERIES.map((name) => `${name} ${formatBytes(curves[name][row + 1])}`);
  tip.replaceChildren(...[momentText(curve.data, row), ...text].map((line) => element("div", {}, line)));
  tip.hidden = false;
  tip.style.left = `${Math.max(Math.min(pointerX(curve, event) + 14, curve.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = "24px";
}
function rowOfKey(curve, key) {
  const { data, row, view, width, shown } = curve;
  const moved = (pixels) => {
    const next = rowAtPlace(curve, placeOfRow(curve, row) + pixels * (view[1] - view[0]) / width);
    return next === row ? row + Math.sign(pixels) : next;
  };
  if (key === "ArrowRight") return moved(1);
  if (key === "ArrowLeft") return moved(-1);
  if (key === "PageDown") return moved(width / 10);
  if (key === "PageUp") return moved(-width / 10);
  if (key === "Home") return -1;
  if (key === "End") return data.numRows - 1;
  return key.toLowerCase() === "p" && shown ? shown.peak.row : null;
}
function pressed3(curve, event) {
  const { row, since, view } = curve;
  const next = rowOfKey(curve, event.key);
  if (next !== null) choose2(curve, next, event.shiftKey ? since ?? Math.min(row, next) : null);
  else if (event.key === "+" || event.key === "=") {
    zoomCurve(curve, 1 / 1.6, (placeOfRow(curve, row) - view[0]) / (view[1] - view[0]));
  } else if (event.key === "-") zoomCurve(curve, 1.6, 0.5);
  else if (event.key === "0") setView(curve, wholeRange(curve));
  else if (event.key === "Escape" && since !== null) choose2(curve, row, null);
  else return false;
  return true;
}

// js/memory/data.js
var NEVER = 2147483647;
async function readColumns2(payload, prefix, names) {
  const columns = await Promise.all(names.map((name) => readInts(payload, `${prefix}.${name}`)));
  return (
    /** @type {{ [name in Name]: Ints }} */
    Object.fromEntries(names.map((name, k) => [name, columns[k]]))
  );
}
function runningSums2(steps) {
  const out = new Float64Array(steps.length);
  let sum = 0;
  for (let i = 0; i < steps.length; i++) {
    sum += steps[i];
    out[i] = sum;
  }
  return out;
}
var ALLOCATION_COLUMNS = (
  /** @type {const} */
  [
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
    "facts"
  ]
);
async function readAllocations(payload, header) {
  const [raw, steps] = await Promise.all([
    readColumns2(payload, "allocation", ALLOCATION_COLUMNS),
    readInts(payload, "addr.steps")
  ]);
  const addresses = runningSums2(steps);
  const n = raw.addr.length;
  const bytes = Float64Array.from(raw.units, (units) => units * header.unit);
  const alloc = Int32Array.from(runningSums2(raw.alloc), (row) => row - 1);
  const released = alloc.map((row, i) => raw.released[i] ? row + raw.released[i] - 1 : NEVER);
  const done = alloc.map((row, i) => raw.done[i] ? (raw.released[i] ? released[i] : row) + raw.done[i] - 1 : NEVER);
  return {
    n,
    addr: Float64Array.from(raw.addr, (place) => addresses[place]),
    bytes,
    requested: bytes.map((size, i) => raw.is_asked[i] ? size - raw.spare[i] : Number.NaN),
    device: raw.device,
    pool: raw.pool,
    category: raw.category,
    facts: raw.facts,
    alloc,
    released,
    done,
    stack: Int32Array.from(raw.stack, (stack) => stack - 1),
    block: Int32Array.from(runningSums2(raw.block), (block) => block - 1),
    // Several allocations share an address, one after the other; the sort keeps their order.
    byAddress: sortedByPlace(raw.addr, addresses.length)
  };
}
function sortedByPlace(place, num) {
  const next = new Uint32Array(num + 1);
  for (let i = 0; i < place.length; i++) next[place[i] + 1]++;
  for (let k = 0; k < num; k++) next[k + 1] += next[k];
  const order = new Int32Array(place.length);
  for (let i = 0; i < place.length; i++) order[next[place[i]]++] = i;
  return order;
}
var PIECE_COLUMNS = (
  /** @type {const} */
  ["addr", "device", "pool", "units", "added", "removed", "kind", "grows"]
);
async function readPieces(payload, header) {
  const { addr, units, added, removed, device, pool, kind, grows } = await readColumns2(payload, "piece", PIECE_COLUMNS);
  return {
    n: addr.length,
    addr: runningSums2(addr),
    bytes: Float64Array.from(units, (number) => number * header.piece_unit),
    added: Int32Array.from(added, (row) => row - 1),
    removed: Int32Array.from(removed, (row) => row ? row - 2 : NEVER),
    device,
    pool,
    kind,
    grows
  };
}
async function readStacks(payload) {
  const [frame, stack, files, functions] = await Promise.all([
    readColumns2(
      payload,
      "frame",
      /** @type {const} */
      ["file", "line", "function"]
    ),
    readColumns2(
      payload,
      "stack",
      /** @type {const} */
      ["sizes", "frames"]
    ),
    readTexts(payload, "files"),
    readTexts(payload, "functions")
  ]);
  const ends = runningSums2(stack.sizes);
  return {
    n: stack.sizes.length,
    numFrames: frame.line.length,
    frameAt: (id) => ({ file: files[frame.file[id]], line: frame.line[id] - 1, name: functions[frame.function[id]] }),
    idsOf: (k) => stack.frames.subarray(ends[k] - stack.sizes[k], ends[k])
  };
}
async function readClock(payload, header) {
  const steps = await readInts(payload, "clock.steps");
  if (!header.has_times) return null;
  const times = new Float64Array(header.num_rows);
  for (let i = 1; i < times.length; i++) times[i] = times[i - 1] + steps[i - 1] * header.time_unit;
  return times;
}
function stackFrameText({ file, line, name }) {
  const place = file ? `${file.split(/[\\/]/).at(-1)}${line >= 0 ? `:${line}` : ""}` : "";
  return [name || "?", place].filter(Boolean).join(" ");
}
async function decodeMemory(bytes) {
  const payload = await openPayload(bytes);
  const { header } = payload;
  const [allocations, pieces, stacks, rest, clock, facts] = await Promise.all([
    readAllocations(payload, header),
    readPieces(payload, header),
    readStacks(payload),
    readColumns2(
      payload,
      "rest",
      /** @type {const} */
      ["allocated", "active"]
    ),
    readClock(payload, header),
    readTexts(payload, "facts")
  ]);
  return {
    header,
    numRows: header.num_rows,
    allocations,
    pieces,
    stacks,
    facts: facts.map((text) => text ? JSON.parse(text) : {}),
    clock,
    rest
  };
}

// js/memory/grouping.js
var GROUPINGS = [
  ["category", "category"],
  ["stack", "call stack"],
  ["pool", "pool and stream"],
  ["names", "variable"],
  ["cell", "cell"]
];
function poolText({ stream, pool, graphs }) {
  const [first, second] = pool;
  const isDefault = !first && !second;
  const which = isDefault ? "default pool" : `private pool (${first ?? "?"}, ${second ?? "?"})`;
  const of = graphs.length ? ` of ${graphs.join(", ")}` : "";
  return `${which}${of}, stream ${stream ?? "not recorded"}`;
}
function stackLabel({ stacks }, stack) {
  if (stack < 0) return "stack not recorded";
  const frames = [...stacks.idsOf(stack)].map(stacks.frameAt);
  const chosen = frames.find(isUserCode) ?? frames.find(({ file }) => file.endsWith(".py")) ?? frames[0];
  return chosen ? stackFrameText(chosen) : "stack not recorded";
}
function isUserCode({ file, name }) {
  const isPython = file.endsWith(".py") || file.startsWith("In[") || file.startsWith("<");
  return isPython && !/[\\/](torch|site-packages|dist-packages)[\\/]/.test(file) && name !== "";
}
function groupingsOf2({ facts }) {
  const isKnown = (name) => facts.some((one) => name in one);
  return GROUPINGS.filter(([key]) => key !== "names" && key !== "cell" || isKnown(key));
}
function factsOf({ allocations, facts }, allocation) {
  const place = allocations.facts[allocation];
  return place ? facts[place - 1] : {};
}
function variableNames(data, allocation) {
  const { names } = factsOf(data, allocation);
  if (!names) return [];
  try {
    return JSON.parse(names).map(String);
  } catch {
    return [names];
  }
}
function groupKey(data, allocation, by) {
  if (by === "names") return variableNames(data, allocation)[0] ?? "";
  if (by === "cell") return factsOf(data, allocation).cell ?? "";
  return data.allocations[by][allocation];
}
function groupLabel(data, key, by) {
  const { categories, pools } = data.header;
  if (by === "names") return String(key) || "no variable that is known";
  if (by === "cell") return String(key) || "not recorded";
  const place = Number(key);
  if (by === "stack") return stackLabel(data, place);
  if (by === "pool") return poolText(pools[place]);
  return place ? categories[place - 1] : "unknown";
}
function groupAllocations(data, chosen, by) {
  const found = /* @__PURE__ */ new Map();
  for (const i of chosen) {
    const key = groupKey(data, i, by);
    const group = found.get(key) ?? { key, label: groupLabel(data, key, by), bytes: 0, num: 0 };
    group.bytes += data.allocations.bytes[i];
    group.num += 1;
    found.set(key, group);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes);
}

// js/memory/holders.js
var MAX_ROWS2 = 25;
function renderHolders(host, data, chosen, options) {
  const groups = groupAllocations(data, chosen, options.by);
  const total = sumOf(groups);
  const name = groupingsOf2(data).find(([key]) => key === options.by)?.[1] ?? options.by;
  const titles = [name, "held", "share", "blocks"].map((text) => element("th", { scope: "col" }, text));
  const rows = groups.slice(0, MAX_ROWS2).map((group) => groupRow(data, group, total, options));
  const table = element(
    "table",
    { class: "mm-table" },
    element("thead", {}, element("tr", {}, ...titles)),
    element("tbody", {}, ...rows)
  );
  const note = noteOf2(groups);
  host.replaceChildren(table, ...note ? [element("p", { class: "cl-hint" }, note)] : []);
}
function sumOf(groups) {
  return groups.reduce((sum, { bytes }) => sum + bytes, 0);
}
function noteOf2(groups) {
  if (!groups.length) return "Nothing was in use.";
  const rest = groups.slice(MAX_ROWS2);
  return rest.length ? `and ${formatCount(rest.length)} more with ${formatBytes(sumOf(rest))}` : "";
}
function groupRow(data, { key, label, bytes, num }, total, { by, picked, onPick }) {
  const isPicked = picked === key;
  const share = total ? 100 * bytes / total : 0;
  const fill2 = element("span", { class: "mm-fill" });
  fill2.style.width = `${share}%`;
  const stack = by === "stack" ? Number(key) : -1;
  const row = element(
    "tr",
    {
      tabindex: 0,
      "data-picked": isPicked,
      "aria-pressed": String(isPicked),
      role: "button",
      title: stack >= 0 ? stackLines(data, stack).join("\n") : null
    },
    element("td", { class: "mm-name" }, fill2, element("span", {}, label)),
    element("td", {}, formatBytes(bytes)),
    element("td", {}, formatPercent(share)),
    element("td", {}, formatCount(num))
  );
  const pick = () => onPick(isPicked ? null : key);
  row.addEventListener("click", pick);
  row.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  });
  return row;
}
function stackLines({ stacks }, stack) {
  return [...stacks.idsOf(stack)].map((id) => {
    const { file, line, name } = stacks.frameAt(id);
    return `${file}${line >= 0 ? `:${line}` : ""} ${name || "?"}`.trim();
  });
}

// js/memory/block_details.js
function describeHit(data, moment, { strip: k, allocation, bytes }) {
  const { allocations, header } = data;
  const strip = moment.strips[k];
  const pool = poolText(header.pools[strip.pool]);
  if (allocation < 0) {
    return [`free, ${formatBytes(bytes)}`, strip.used ? "a gap between blocks" : "an empty segment", pool];
  }
  const names = variableNames(data, allocation).slice(0, 3).join(", ");
  const isPending = allocations.released[allocation] <= moment.row;
  return [
    [names, formatBytes(allocations.bytes[allocation]), categoryOf(data, allocation)].filter(Boolean).join(" · "),
    isPending ? "freed, waits for a stream" : "",
    stackLabel(data, allocations.stack[allocation]),
    pool
  ].filter(Boolean);
}
function categoryOf({ allocations, header }, allocation) {
  const place = allocations.category[allocation];
  return place ? header.categories[place - 1] : null;
}
function renderBlockDetails(host, data, moment, hit) {
  host.hidden = !hit;
  if (!hit) return;
  const isGap = hit.allocation < 0;
  const facts = isGap ? gapFacts(data, moment, hit) : blockFacts(data, moment, hit);
  const rows = facts.filter(([, value]) => value !== null && value !== void 0 && value !== "").flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]);
  const stack = isGap ? -1 : data.allocations.stack[hit.allocation];
  const lines = stack >= 0 ? stackLines(data, stack) : [];
  host.replaceChildren(
    element("h4", { "aria-level": 3 }, isGap ? "Free memory" : "Block"),
    element("dl", { class: "cl-facts" }, ...rows),
    ...lines.length ? [element("h4", { "aria-level": 3 }, "Allocated by"), element("pre", { class: "mm-stack" }, lines.join("\n"))] : []
  );
}
function addressText({ header }, offset) {
  return `0x${(BigInt(header.base) + BigInt(Math.round(offset))).toString(16)}`;
}
function exactSize(bytes) {
  return `${formatBytes(bytes)} (${formatCount(bytes)} bytes)`;
}
function segmentFacts(data, moment, hit) {
  const strip = moment.strips[hit.strip];
  const place = `${formatBytes(strip.bytes)} at ${addressText(data, strip.addr)}`;
  return [
    ["pool", poolText(data.header.pools[strip.pool])],
    ["segment", `${place}${strip.grows ? ", expandable" : ""}`],
    ["segment in use", formatPercent(100 * strip.used / strip.bytes)]
  ];
}
function gapFacts(data, moment, hit) {
  return [["size", exactSize(hit.bytes)], ["address", addressText(data, hit.from)], ...segmentFacts(data, moment, hit)];
}
function blockFacts(data, moment, hit) {
  const { allocation } = hit;
  const { bytes, requested, released, addr } = data.allocations;
  const { cell, num_tensors, graph, user_metadata } = factsOf(data, allocation);
  const asked = requested[allocation];
  return [
    ["held by", variableNames(data, allocation).join(", ")],
    ["size", exactSize(bytes[allocation])],
    ["asked for", Number.isNaN(asked) ? null : exactSize(asked)],
    ["state", released[allocation] <= moment.row ? "freed, waits for a stream" : "in use"],
    ["category", categoryOf(data, allocation) ?? "unknown"],
    ...timeFacts(data, moment, allocation),
    ["cell", cell],
    ["live tensors", num_tensors],
    ["graphs", graph],
    ["metadata", user_metadata],
    ["address", addressText(data, addr[allocation])],
    ...segmentFacts(data, moment, hit)
  ];
}
function timeFacts(data, moment, allocation) {
  const { allocations, clock, numRows } = data;
  const [made, freed] = [allocations.alloc[allocation], allocations.done[allocation]];
  return [
    ["allocated", made < 0 ? "before the history" : momentText(data, made)],
    ["age then", made >= 0 && clock ? formatDuration(clock[Math.max(moment.row, 0)] - clock[made]) : null],
    ["freed", freed < numRows ? momentText(data, freed) : null]
  ];
}

// js/memory/curves.js
function curvesOf(data, device) {
  const steps = stepsOf(data, device);
  const { allocated_bytes, active_bytes, reserved_bytes } = data.header.devices[device];
  return {
    allocated: summedTo(steps.allocated, allocated_bytes),
    active: summedTo(steps.active, active_bytes),
    reserved: summedTo(steps.reserved, reserved_bytes)
  };
}
function stepsOf({ allocations, pieces, numRows, header, rest }, device) {
  const [allocated, active, reserved] = [0, 1, 2].map(() => new Float64Array(numRows + 1));
  const add = (curve, row, bytes) => {
    if (row >= 0 && row < numRows) curve[row + 1] += bytes;
  };
  for (let i = 0; i < allocations.n; i++) {
    if (allocations.device[i] !== device) continue;
    const bytes = allocations.bytes[i];
    add(active, allocations.alloc[i], bytes);
    add(active, allocations.done[i], -bytes);
    add(allocated, allocations.alloc[i], bytes);
    add(allocated, allocations.released[i], -bytes);
  }
  for (let i = 0; i < pieces.n; i++) {
    if (pieces.device[i] !== device) continue;
    add(reserved, pieces.added[i], pieces.bytes[i]);
    add(reserved, pieces.removed[i], -pieces.bytes[i]);
  }
  const numSteps = rest.active.length / Math.max(header.devices.length, 1);
  for (let k = 0; k < numSteps; k++) {
    const row = Math.min((k + 1) * header.hidden.stretch, numRows) - 1;
    add(allocated, row, rest.allocated[device * numSteps + k]);
    add(active, row, rest.active[device * numSteps + k]);
  }
  return { allocated, active, reserved };
}
function summedTo(steps, end) {
  let held = end - steps.reduce((sum, step) => sum + step, 0);
  for (let i = 0; i < steps.length; i++) {
    held += steps[i];
    steps[i] = held;
  }
  return steps;
}
function peakRowOf(curve) {
  let best = 0;
  for (let i = 1; i < curve.length; i++) if (curve[i] > curve[best]) best = i;
  return best - 1;
}

// js/memory/stacks.js
function stackTree(stacks) {
  const tree = { parent: [-1], frame: [-1], depth: [0], leaf: new Int32Array(stacks.n) };
  const known = /* @__PURE__ */ new Map();
  for (let k = 0; k < stacks.n; k++) {
    const ids = stacks.idsOf(k);
    let at = 0;
    for (let j = ids.length - 1; j >= 0; j--) {
      const key = at * stacks.numFrames + ids[j];
      let next = known.get(key);
      if (next === void 0) {
        next = tree.parent.length;
        known.set(key, next);
        tree.parent.push(at);
        tree.frame.push(ids[j]);
        tree.depth.push(tree.depth[at] + 1);
      }
      at = next;
    }
    tree.leaf[k] = at;
  }
  return tree;
}
function stackSums(tree, allocations, chosen) {
  const n = tree.parent.length;
  const [bytes, num] = [new Float64Array(n), new Float64Array(n)];
  for (const i of chosen) {
    const at = allocations.stack[i] < 0 ? 0 : tree.leaf[allocations.stack[i]];
    bytes[at] += allocations.bytes[i];
    num[at] += 1;
  }
  for (let k = n - 1; k > 0; k--) {
    bytes[tree.parent[k]] += bytes[k];
    num[tree.parent[k]] += num[k];
  }
  return { bytes, num };
}
function childrenOf2(tree) {
  const children = tree.parent.map(() => []);
  for (let k = 1; k < tree.parent.length; k++) children[tree.parent[k]].push(k);
  return children;
}

// js/memory/flame.js
function createFlameGraph(host, data, options) {
  const tree = data.stacks.n ? stackTree(data.stacks) : null;
  const children = tree ? childrenOf2(tree) : [];
  const frameOf2 = (node) => node && tree ? data.stacks.frameAt(tree.frame[node]) : null;
  const view = createFlame(host, {
    theme: options.theme,
    label: "Bytes by call stack",
    placeholder: "Search functions and files",
    searchLabel: "Search call stacks",
    textOf(node) {
      const frame = frameOf2(node);
      return frame ? stackFrameText(frame) : "all";
    },
    amountOf: (bytes, num) => `${formatBytes(bytes)} (%) in ${formatPlural(num, "block")}`,
    format: formatBytes,
    notesOf: (node) => [frameOf2(node)?.file ?? ""],
    onZoom: (node) => options.onZoom(node && tree ? insideOf(tree, node) : null)
  });
  return {
    ...view,
    get root() {
      return view.root;
    },
    get graph() {
      return view.graph;
    },
    show(chosen) {
      if (!tree) return;
      const { bytes, num } = stackSums(tree, data.allocations, chosen);
      view.show({ parent: tree.parent, depth: tree.depth, children, weight: bytes, num });
    }
  };
}
function insideOf(tree, node) {
  const inside = Uint8Array.from(tree.leaf, (leaf) => isDescendant(tree, leaf, node) ? 1 : 0);
  return (stack) => stack >= 0 && inside[stack] === 1;
}
function isDescendant({ parent }, node, ancestor) {
  for (let k = node; k >= 0; k = parent[k]) if (k === ancestor) return true;
  return false;
}

// js/memory/fragmentation.js
var PARTS = [
  {
    key: "requested",
    label: "asked for",
    meaning: "what programs asked for, of blocks in use",
    bytesOf: (sums) => sums.active - sums.internal
  },
  {
    key: "internal",
    label: "rounding",
    meaning: "blocks in use that are larger than what was asked for",
    bytesOf: (sums) => sums.internal
  },
  {
    key: "external",
    label: "gaps",
    meaning: "free memory in segments that hold something: it fits only what is small enough",
    bytesOf: (sums) => sums.external
  },
  {
    key: "empty",
    label: "cached",
    meaning: "segments in which nothing is in use; torch.cuda.empty_cache() returns them",
    bytesOf: (sums) => sums.empty
  }
];
function renderFragmentation(host, { sums }) {
  const parts = PARTS.map((part) => ({ ...part, bytes: part.bytesOf(sums) }));
  const pieces = parts.filter(({ bytes }) => bytes > 0).map(barPiece);
  const legend2 = parts.map(
    ({ key, label, meaning, bytes }) => element(
      "span",
      { class: "mm-key", title: meaning },
      element("i", { class: `mm-is-${key}` }),
      `${label} ${formatBytes(bytes)} (${formatPercent(shareOf(sums, bytes))})`
    )
  );
  host.replaceChildren(
    element("p", {}, summary(sums)),
    element("div", { class: "mm-bar", role: "img", "aria-label": "Reserved memory by use" }, ...pieces),
    element("p", { class: "mm-legend" }, ...legend2)
  );
}
function barPiece({ key, label, bytes }) {
  const piece = element("span", { class: `mm-part mm-is-${key}`, title: `${label}: ${formatBytes(bytes)}` });
  piece.style.flexGrow = String(bytes);
  return piece;
}
function shareOf({ reserved }, bytes) {
  return reserved ? 100 * bytes / reserved : 0;
}
function summary(sums) {
  if (!sums.reserved) return "No memory was reserved.";
  const share = formatPercent(shareOf(sums, sums.internal + sums.external));
  const largest = formatBytes(sums.largest);
  return `Fragmentation ${share} of ${formatBytes(sums.reserved)} reserved; the largest block that fits without new memory is ${largest}.`;
}

// js/memory/colors.js
var HUES = [
  "#0072b2",
  "#e69f00",
  "#009e73",
  "#cc79a7",
  "#56b4e9",
  "#d55e00",
  "#b8a400",
  "#7a5cc4",
  "#8c6d46",
  "#3fb8a0",
  "#c2476b"
];
var UNKNOWN_COLOR = { light: "#9aa4af", dark: "#6f7b87" };
var AGE_COLORS = {
  light: ["#fde08a", "#f5ae4d", "#e0733f", "#b3404f", "#7b2764", "#421a5c"],
  dark: ["#fff1b8", "#fbc15e", "#f08a4b", "#d2555f", "#a04a8f", "#6d4fb0"]
};
var BACKGROUND_COLORS = {
  light: { gap: [238, 241, 245], hatch: [188, 197, 207], dim: [214, 220, 227] },
  dark: { gap: [33, 39, 46], hatch: [73, 84, 96], dim: [52, 60, 69] }
};
var COLOR_MODES = { category: "Category", stream: "Stream", age: "Age", stack: "Call stack" };
var CLASSES = { category: byCategory, stream: byStream, age: byAge, stack: byStack };
function packedColor([r, g, b]) {
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}
function coloringOf(data, moment, mode, theme) {
  const classes = CLASSES[mode](data, moment, theme);
  const rgb = classes.css.map(rgbOf);
  return {
    ...classes,
    rgb,
    pixels: Uint32Array.from(rgb, packedColor),
    edges: Uint32Array.from(rgb, (color) => packedColor(edgeColor(color, theme)))
  };
}
function edgeColor(rgb, theme) {
  const toward = theme === "dark" ? 0 : 255;
  const [r, g, b] = rgb.map((v) => Math.round(v + (toward - v) * 0.45));
  return [r, g, b];
}
function byCategory(data, moment, theme) {
  const { categories } = data.header;
  const css = [UNKNOWN_COLOR[theme], ...categories.map((_, k) => HUES[k % HUES.length])];
  const present = groupAllocations(data, moment.allocations, "category");
  return {
    css,
    of: (allocation) => data.allocations.category[allocation],
    legend: present.map(({ key, label }) => ({ css: css[Number(key)], label }))
  };
}
function byStream({ header, allocations }, moment, theme) {
  const streams = [...new Set(header.pools.map(({ stream }) => stream))];
  streams.sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  const css = [UNKNOWN_COLOR[theme], ...streams.map((_, k) => HUES[k % HUES.length])];
  const index = header.pools.map(({ stream }) => stream === null ? 0 : 1 + streams.indexOf(stream));
  const present = [...new Set(moment.strips.map(({ pool }) => index[pool]))].sort((a, b) => a - b);
  return {
    css,
    of: (allocation) => index[allocations.pool[allocation]],
    legend: present.map((k) => ({ css: css[k], label: k ? `stream ${streams[k - 1]}` : "stream not recorded" }))
  };
}
var AGE_RATIO = 4;
function byAge({ allocations, clock }, moment, theme) {
  const { alloc } = allocations;
  const ramp = AGE_COLORS[theme];
  const css = [UNKNOWN_COLOR[theme], ...ramp];
  const ageOf = (i) => clock ? clock[Math.max(moment.row, 0)] - clock[alloc[i]] : moment.row - alloc[i];
  let oldest = 1;
  for (const i of moment.allocations) if (alloc[i] >= 0) oldest = Math.max(oldest, ageOf(i));
  const of = (i) => {
    if (alloc[i] < 0) return 0;
    const steps = Math.floor(Math.log(oldest / Math.max(ageOf(i), oldest * 1e-9)) / Math.log(AGE_RATIO));
    return ramp.length - Math.min(Math.max(steps, 0), ramp.length - 1);
  };
  const legend2 = ramp.map((color, k) => {
    const bound = oldest / AGE_RATIO ** (ramp.length - 1 - k);
    const text = clock ? formatDuration(bound) : `${Math.round(bound).toLocaleString("en-US")} actions`;
    return { css: color, label: `up to ${text}` };
  });
  if (moment.allocations.some((i) => alloc[i] < 0)) legend2.push({ css: css[0], label: "from before the history" });
  return { css, of, legend: legend2 };
}
function byStack(data, moment, theme) {
  const sums = groupAllocations(data, moment.allocations, "stack");
  const top = sums.filter(({ key }) => Number(key) >= 0).slice(0, HUES.length);
  const index = new Map(top.map(({ key }, k) => [Number(key), k + 1]));
  const unknown = UNKNOWN_COLOR[theme];
  const legend2 = top.map(({ label }, k) => ({ css: HUES[k], label }));
  if (sums.length > top.length) legend2.push({ css: unknown, label: "all others" });
  return { css: [unknown, ...HUES], of: (i) => index.get(data.allocations.stack[i]) ?? 0, legend: legend2 };
}

// js/memory/map_parts.js
var ZOOM_STEP = 1.6;
function buildParts(state, actions) {
  const { data } = state;
  const curve = element("div", { class: "mm-curve" });
  const map = element("div", { class: "mm-map" });
  const details = element("aside", { class: "mm-details", "aria-label": "Chosen block", hidden: true });
  const moment = element("p", { class: "mm-moment", "aria-live": "polite" });
  const legend2 = element("p", { class: "mm-legend" });
  const bar = element("div", { class: "mm-fragmentation" });
  const holders = element("div", { class: "mm-holders" });
  const flame = element("div", { class: "mm-flame" });
  const devices = deviceChoice(state, actions);
  const colors = buttonChoice("Colour", colorEntries(), state.color, actions.onColor);
  const by = buttonChoice("By", groupingsOf2(data), state.by, actions.onGrouping);
  const all = [
    ...data.header.devices.length > 1 ? [devices.group] : [],
    ...data.numRows ? [historyTools(data.clock !== null, actions), curve, curveHint()] : [],
    moment,
    ...hiddenNote(data.header),
    bar,
    element("div", { class: "mm-tools" }, colors.group, zoomButtons(actions)),
    legend2,
    element("div", { class: "mm-columns" }, map, details),
    element("div", { class: "mm-tools" }, element("h4", { "aria-level": 3 }, "Who holds it"), by.group),
    holders,
    ...data.stacks.n ? [element("h4", { "aria-level": 3 }, "Bytes by call stack"), flame] : []
  ];
  return { all, curve, map, details, moment, legend: legend2, bar, holders, flame, devices, colors };
}
function deviceChoice({ data, device }, { onDevice }) {
  const entries = data.header.devices.map(({ label }, k) => [String(k), label]);
  return buttonChoice("Device", entries, String(device), (key) => onDevice(Number(key)));
}
function colorEntries() {
  const entries = (
    /** @type {[ColorMode, string][]} */
    Object.entries(COLOR_MODES)
  );
  return entries.map(([key, text]) => (
    /** @type {[ColorMode, string]} */
    [key, text.toLowerCase()]
  ));
}
function historyTools(hasTimes, { onAxis, onPeak, onEnd }) {
  const axes = [
    ["time", "time"],
    ["action", "actions"]
  ];
  const jump = element(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Moment" },
    actionButton("At the peak", "Show the moment of the peak", onPeak),
    actionButton("At the end", "Show the last moment", onEnd)
  );
  const axis = hasTimes ? buttonChoice("Axis", axes, "time", (key) => onAxis(key === "time")).group : null;
  return element("div", { class: "mm-tools" }, seriesLegend(), axis, jump);
}
function curveHint() {
  return element("p", { class: "cl-hint" }, "Click or drag along the curve to see what was there then.");
}
function zoomButtons({ onZoom, onFit }) {
  return element(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Zoom of the map" },
    actionButton("−", "Zoom out", () => onZoom(1 / ZOOM_STEP)),
    actionButton("+", "Zoom in", () => onZoom(ZOOM_STEP)),
    actionButton("fit", "Show all", onFit)
  );
}
function hiddenNote({ hidden }) {
  if (!hidden.num) return [];
  const text = `${formatPlural(hidden.num, "small allocation")} (${formatBytes(hidden.bytes)} together)`;
  return [element("p", { class: "cl-hint" }, `${text} are in the curve and not in the map.`)];
}
function showLegend(host, entries, hasPending) {
  const keys = entries.map(({ css, label }) => {
    const swatch = element("i", {});
    swatch.style.background = css;
    return element("span", { class: "mm-key", title: label }, swatch, label);
  });
  const pending = element("span", { class: "mm-key" }, element("i", { class: "mm-waits" }), "waits for a stream");
  const free = element("span", { class: "mm-key" }, element("i", { class: "mm-free" }), "free");
  host.replaceChildren(...keys, ...hasPending ? [pending] : [], free);
}

// js/memory/moment.js
function momentAt(data, device, row) {
  const { allocations } = data;
  const alive = allocationsAt(allocations, device, row);
  const strips = stripsAt(data.pieces, device, row);
  const sums = sumsOfStrips(allocations, alive, strips);
  addAllocations2(sums, allocations, alive, row);
  if (row === data.numRows - 1) useSnapshot(sums, data, device);
  const placed = strips.reduce((number, { first, end }) => number + end - first, 0);
  return { device, row, allocations: alive, strips, sums, outside: alive.length - placed };
}
function stripsAt(pieces, device, row) {
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
function allocationsAt(allocations, device, row) {
  const found = new Int32Array(allocations.n);
  let n = 0;
  for (let k = 0; k < allocations.n; k++) {
    const i = allocations.byAddress[k];
    if (allocations.alloc[i] <= row && row < allocations.done[i] && allocations.device[i] === device) found[n++] = i;
  }
  return found.slice(0, n);
}
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
function addAllocations2(sums, { bytes, released, requested }, alive, row) {
  for (const i of alive) {
    sums.active += bytes[i];
    if (released[i] <= row) sums.pending += bytes[i];
    else sums.allocated += bytes[i];
    if (!Number.isNaN(requested[i])) sums.internal += bytes[i] - requested[i];
  }
}
function useSnapshot(sums, { header }, device) {
  const { end, allocated_bytes, active_bytes, reserved_bytes } = header.devices[device];
  Object.assign(sums, end ?? {}, { allocated: allocated_bytes, active: active_bytes, reserved: reserved_bytes });
  sums.pending = sums.active - sums.allocated;
}

// js/memory/layout.js
var LINE_HEIGHT = 16;
var BAR_HEIGHT = 14;
var HEADING_HEIGHT = 22;
var KIND_LABELS = ["", " · small blocks", " · large blocks"];
function groupStrips(data, moment) {
  const groups = /* @__PURE__ */ new Map();
  moment.strips.forEach((strip, k) => {
    const key = `${strip.pool}/${strip.kind}`;
    const group = groups.get(key) ?? {
      strips: [],
      bytes: 0,
      used: 0,
      pool: strip.pool,
      kind: strip.kind,
      label: poolText(data.header.pools[strip.pool]) + KIND_LABELS[strip.kind]
    };
    group.strips.push(k);
    group.bytes += strip.bytes;
    group.used += strip.used;
    groups.set(key, group);
  });
  return [...groups.values()].sort((a, b) => a.pool - b.pool || b.kind - a.kind);
}
function layoutStrips(moment, groups, width, bytesPerPx) {
  const lineBytes = width * bytesPerPx;
  const heads = [];
  const lines = [];
  const part = { strip: [], from: [], bytes: [], x: [] };
  let y = 0;
  const openLine = () => {
    lines.push({ y, first: part.strip.length, end: part.strip.length });
    y += LINE_HEIGHT;
  };
  const put = (strip, from, bytes, at) => {
    part.strip.push(strip);
    part.from.push(from);
    part.bytes.push(bytes);
    part.x.push(at / bytesPerPx);
    lines[lines.length - 1].end = part.strip.length;
  };
  for (const group of groups) {
    heads.push({ y, group });
    y += HEADING_HEIGHT;
    openLine();
    let at = 0;
    for (const k of group.strips) {
      const { bytes } = moment.strips[k];
      if (at > 0 && at + bytes > lineBytes) {
        openLine();
        at = 0;
      }
      for (let from = 0; from < bytes; from += lineBytes) {
        if (from > 0) openLine();
        put(k, from, Math.min(lineBytes, bytes - from), at);
      }
      const last = bytes > lineBytes ? lineBytes : bytes;
      at += last + spaceAfter(bytes / bytesPerPx) * bytesPerPx;
    }
    y += 4;
  }
  return { heads, lines, part, height: y, width, bytesPerPx };
}
function spaceAfter(px) {
  return px >= 12 ? 3 : px >= 4 ? 1 : 0;
}
function fitScale(moment, groups, width, height) {
  const longest2 = Math.max(...groups.map((group) => group.bytes), 1);
  let [low, high] = [longest2 / width / 4096, longest2 * 1.5 / width];
  for (let step = 0; step < 24; step++) {
    const middle = Math.sqrt(low * high);
    if (layoutStrips(moment, groups, width, middle).height > height) low = middle;
    else high = middle;
  }
  return high;
}
function lineAt(lines, y) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (lines[middle].y <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function firstEndingAfter(allocations, alive, first, end, addr) {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = low + high >> 1;
    if (allocations.addr[alive[middle]] + allocations.bytes[alive[middle]] <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}
function hitAtPoint(data, moment, layout2, x, y) {
  const k = lineAt(layout2.lines, y);
  if (k < 0 || y > layout2.lines[k].y + LINE_HEIGHT) return null;
  const { part } = layout2;
  for (let p = layout2.lines[k].first; p < layout2.lines[k].end; p++) {
    const width = part.bytes[p] / layout2.bytesPerPx;
    if (x < part.x[p] || x >= part.x[p] + Math.max(width, 1)) continue;
    const strip = moment.strips[part.strip[p]];
    return hitAtAddress(data, moment, part.strip[p], strip.addr + part.from[p] + (x - part.x[p]) * layout2.bytesPerPx);
  }
  return null;
}
function hitAtAddress(data, moment, k, addr) {
  const { allocations } = data;
  const strip = moment.strips[k];
  const at = firstEndingAfter(allocations, moment.allocations, strip.first, strip.end, addr);
  const allocation = at < strip.end ? moment.allocations[at] : -1;
  if (allocation >= 0 && allocations.addr[allocation] <= addr)
    return { strip: k, allocation, from: allocations.addr[allocation], bytes: allocations.bytes[allocation] };
  const before = at > strip.first ? moment.allocations[at - 1] : -1;
  const from = before < 0 ? strip.addr : allocations.addr[before] + allocations.bytes[before];
  return {
    strip: k,
    allocation: -1,
    from,
    bytes: (allocation < 0 ? strip.addr + strip.bytes : allocations.addr[allocation]) - from
  };
}
function boxesOfHit(moment, layout2, { strip, from, bytes }) {
  const { part, lines, bytesPerPx } = layout2;
  const begin = from - moment.strips[strip].addr;
  const boxes = [];
  let p = part.strip.indexOf(strip);
  let line = 0;
  for (; p >= 0 && p < part.strip.length && part.strip[p] === strip; p++) {
    const [a, b] = [Math.max(begin, part.from[p]), Math.min(begin + bytes, part.from[p] + part.bytes[p])];
    if (a >= b) continue;
    while (lines[line].end <= p) line++;
    boxes.push({
      x: part.x[p] + (a - part.from[p]) / bytesPerPx,
      y: lines[line].y,
      width: (b - a) / bytesPerPx,
      height: BAR_HEIGHT
    });
  }
  return boxes;
}

// js/memory/draw.js
var HATCH_PX = 6;
var [SOLID, GAP, PENDING] = [0, 1, 2];
var BACKGROUND = 0;
var MIN_LABEL_PX = 64;
var MAX_LABELS = 400;
function drawPool(context, shown) {
  const { layout: layout2, top, height, ratio } = shown;
  const painter = createLinePainter(shown);
  const rows = Math.floor(height * ratio);
  const image = new ImageData(Math.max(painter.width, 1), Math.max(rows, 1));
  const pixels = new Uint32Array(image.data.buffer);
  const labels = [];
  const from = Math.max(lineAt(layout2.lines, top), 0);
  for (let k = from; k < layout2.lines.length && layout2.lines[k].y < top + height; k++) {
    const line = layout2.lines[k];
    paintLine(shown, painter, line, labels);
    copyLine(pixels, painter, Math.round((line.y - top) * ratio), Math.round(BAR_HEIGHT * ratio), rows);
  }
  context.putImageData(image, 0, 0);
  context.save();
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  writeHeadings(context, shown);
  writeLabels(context, shown, labels);
  context.restore();
}
function createLinePainter({ layout: layout2, theme, ratio }) {
  const width = Math.floor(layout2.width * ratio);
  const { gap, hatch, dim } = BACKGROUND_COLORS[theme];
  return {
    width,
    line: new Uint32Array(width),
    kind: new Uint8Array(width),
    weight: new Float32Array(width),
    gap: packedColor(gap),
    hatch: packedColor(hatch),
    dim: packedColor(dim)
  };
}
function paintLine(shown, painter, line, labels) {
  painter.line.fill(BACKGROUND);
  painter.kind.fill(SOLID);
  painter.weight.fill(0);
  for (let p = line.first; p < line.end; p++) paintPart2(shown, painter, p, line.y, labels);
}
function paintPart2(shown, painter, p, y, labels) {
  const { data, moment, layout: layout2, ratio } = shown;
  const { addr, bytes: sizes } = data.allocations;
  const { part } = layout2;
  const strip = moment.strips[part.strip[p]];
  const scale = ratio / layout2.bytesPerPx;
  const x = part.x[p] * ratio;
  const [begin, bytes] = [strip.addr + part.from[p], part.bytes[p]];
  const right = Math.min(Math.max(Math.round(x + bytes * scale), Math.round(x) + 1), painter.width);
  painter.line.fill(painter.gap, Math.round(x), right);
  painter.kind.fill(GAP, Math.round(x), right);
  const first = firstEndingAfter(data.allocations, moment.allocations, strip.first, strip.end, begin);
  for (let k = first; k < strip.end; k++) {
    const i = moment.allocations[k];
    const offset = addr[i] - begin;
    if (offset >= bytes) break;
    const low = x + Math.max(offset, 0) * scale;
    const high = x + Math.min(offset + sizes[i], bytes) * scale;
    paintBlock(shown, painter, k, { low, high, right, y }, labels);
  }
}
function paintBlock({ data, moment, ratio, codes, isDim, coloring }, painter, k, { low, high, right, y }, labels) {
  const allocation = moment.allocations[k];
  const isPending = data.allocations.released[allocation] <= moment.row;
  const isFaint = isDim?.[k] === 1;
  const color = isFaint ? painter.dim : coloring.pixels[codes[k]];
  const kind = isPending ? PENDING : SOLID;
  const first = Math.round(low);
  const last = Math.min(Math.round(high), right);
  if (last - first < 1) {
    const at = Math.min(Math.floor(low), painter.width - 1);
    if (high - low > painter.weight[at]) {
      painter.weight[at] = high - low;
      painter.line[at] = color;
      painter.kind[at] = kind;
    }
    return;
  }
  painter.line.fill(color, first, last);
  painter.kind.fill(kind, first, last);
  painter.weight.fill(1, first, last);
  if (last - first <= 3 * ratio) return;
  painter.line.fill(isFaint ? BACKGROUND : coloring.edges[codes[k]], last - Math.round(ratio), last);
  const width = (last - first) / ratio;
  if (width > MIN_LABEL_PX && labels.length < MAX_LABELS && !isFaint && !isPending) {
    labels.push({ allocation, code: codes[k], x: first / ratio, width, y });
  }
}
function copyLine(pixels, painter, y0, height, rows) {
  const { width, line, kind } = painter;
  for (let y = Math.max(y0, 0); y < Math.min(y0 + height, rows); y++) {
    const at = y * width;
    pixels.set(line, at);
    for (let x = 0; x < width; x++) {
      if (kind[x] === SOLID) continue;
      const phase = (x + y) % HATCH_PX;
      if (kind[x] === GAP) {
        if (phase === 0) pixels[at + x] = painter.hatch;
      } else if (phase < 2) pixels[at + x] = BACKGROUND;
    }
  }
}
function writeHeadings(context, { layout: layout2, top, height, ink, font }) {
  context.font = `600 12px ${font}`;
  context.fillStyle = ink;
  for (const { y, group } of layout2.heads) {
    if (y + HEADING_HEIGHT < top || y > top + height) continue;
    const segments = formatPlural(group.strips.length, "segment");
    const free = formatBytes(Math.max(group.bytes - group.used, 0));
    const text = `${group.label}: ${formatBytes(group.bytes)} in ${segments}, ${free} free`;
    context.fillText(shortened(context, text, layout2.width), 0, y - top + HEADING_HEIGHT / 2 + 1);
  }
}
function writeLabels(context, { data, coloring, top, font }, labels) {
  context.font = `11px ${font}`;
  for (const { allocation, code, x, width, y } of widestOfEach(labels)) {
    const [r, g, b] = coloring.rgb[code];
    context.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
    const text = shortened(context, blockName(data, allocation), width - 8);
    if (text) context.fillText(text, x + 4, y - top + LINE_HEIGHT / 2 - 0.5);
  }
}
function widestOfEach(labels) {
  const widest = /* @__PURE__ */ new Map();
  for (const label of labels) {
    const other = widest.get(label.allocation);
    if (other === void 0 || label.width > other.width) widest.set(label.allocation, label);
  }
  return widest.values();
}
function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let n = Math.min(text.length, Math.floor(width / 3));
  while (n > 2 && context.measureText(`${text.slice(0, n)}…`).width > width) n--;
  return n > 2 ? `${text.slice(0, n)}…` : "";
}
function blockName(data, allocation) {
  const [name] = variableNames(data, allocation);
  const size = formatBytes(data.allocations.bytes[allocation]);
  return name ? `${name} · ${size}` : size;
}

// js/memory/pool_keys.js
function onPoolKey(pool, event, actions) {
  const { picture } = pool;
  if (!picture?.moment.strips.length || event.altKey || event.ctrlKey || event.metaKey) return;
  if (!pressed4(pool, picture, event.key, actions)) return;
  event.preventDefault();
  event.stopPropagation();
}
function pressed4(pool, picture, key, { choose: choose4, zoom: zoom2 }) {
  const order = stripOrder(picture);
  if (key === "ArrowRight" || key === "ArrowLeft")
    choose4(hitBeside(pool, picture, key === "ArrowRight" ? 1 : -1), true);
  else if (key === "ArrowDown" || key === "ArrowUp")
    choose4(hitAbove(pool, picture, key === "ArrowDown" ? 1 : -1), true);
  else if (key === "Home") choose4(firstHit(pool, picture, order[0]), true);
  else if (key === "End") choose4(lastHit(pool, picture, order[order.length - 1]), true);
  else if (key === "+" || key === "=") zoom2(1.6);
  else if (key === "-") zoom2(1 / 1.6);
  else if (key === "0") zoom2(1 / pool.zoom);
  else if (key === "Escape" && pool.chosen) choose4(null, false);
  else return false;
  return true;
}
function stripOrder({ groups }) {
  return groups.flatMap((group) => group.strips);
}
function firstHit({ data }, { moment }, k) {
  return hitAtAddress(data, moment, k, moment.strips[k].addr);
}
function lastHit({ data }, { moment }, k) {
  const strip = moment.strips[k];
  return hitAtAddress(data, moment, k, strip.addr + strip.bytes - 1);
}
function hitBeside(pool, picture, step) {
  const order = stripOrder(picture);
  const { chosen, data } = pool;
  if (!chosen) return firstHit(pool, picture, order[0]);
  const strip = picture.moment.strips[chosen.strip];
  const next = step > 0 ? chosen.from + chosen.bytes : chosen.from - 1;
  if (next >= strip.addr && next < strip.addr + strip.bytes) {
    return hitAtAddress(data, picture.moment, chosen.strip, next);
  }
  const k = order.indexOf(chosen.strip) + step;
  if (k < 0 || k >= order.length) return chosen;
  return step > 0 ? firstHit(pool, picture, order[k]) : lastHit(pool, picture, order[k]);
}
function hitAbove(pool, picture, step) {
  const { chosen, data, width } = pool;
  const { moment, layout: layout2 } = picture;
  if (!chosen) return hitBeside(pool, picture, 1);
  const box = boxesOfHit(moment, layout2, chosen).at(step > 0 ? -1 : 0);
  const line = box && layout2.lines[lineAt(layout2.lines, box.y) + step];
  if (!line) return chosen;
  const beside = hitAtPoint(data, moment, layout2, Math.min(box.x + 1, width - 2), line.y + 1);
  return beside ?? hitAtPoint(data, moment, layout2, layout2.part.x[line.first], line.y + 1);
}

// js/memory/pool.js
var MAX_HEIGHT3 = 420;
var MIN_HEIGHT2 = 60;
var MAX_LINES = 6e4;
function createPoolMap(host, data, options) {
  const pool = createState4(data, options);
  host.replaceChildren(pool.scroller, pool.tip, pool.spoken);
  listenToPool(pool);
  return {
    show: (moment) => showMoment(pool, moment),
    setColor(color) {
      pool.color = color;
      return recolor(pool);
    },
    setDim(isDimmed) {
      pool.isDimmed = isDimmed;
      recolor(pool);
    },
    choose: (hit) => choose3(pool, hit, true),
    zoomBy: (factor) => zoom(pool, factor, null),
    fit: () => zoom(pool, 1 / pool.zoom, null),
    setTheme(theme) {
      pool.theme = theme;
      return recolor(pool);
    },
    resize() {
      if (pool.picture && pool.scroller.clientWidth !== pool.width) relayout2(pool, pool.picture.moment);
    },
    stats: () => ({ script: pool.script, zoom: pool.zoom, lines: pool.picture?.layout.lines.length ?? 0 }),
    hitAt: (x, y) => hitUnder(pool, { x, y }),
    boxesOf: (hit) => pool.picture ? boxesOfHit(pool.picture.moment, pool.picture.layout, hit) : [],
    destroy() {
      cancelAnimationFrame(pool.pending);
      host.replaceChildren();
    }
  };
}
function createState4(data, options) {
  const canvas = element("canvas", {
    class: "mm-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."
  });
  const over = element("canvas", { class: "mm-over", "aria-hidden": "true" });
  const spacer = element("div", { class: "mm-spacer" });
  const stage = element("div", { class: "mm-stage" }, canvas, over);
  return {
    data,
    options,
    canvas,
    over,
    stage,
    spacer,
    scroller: element("div", { class: "mm-scroll" }, stage, spacer),
    tip: element("div", { class: "mm-tip", hidden: true }),
    spoken: element("p", { class: "mm-said", "aria-live": "polite" }),
    theme: options.theme,
    color: options.color,
    isDimmed: null,
    zoom: 1,
    hover: null,
    chosen: null,
    picture: null,
    colors: null,
    width: 0,
    height: 0,
    ratio: 1,
    numLines: 3,
    pending: 0,
    script: []
  };
}
function showMoment(pool, moment) {
  const { picture } = pool;
  pool.hover = null;
  pool.tip.hidden = true;
  if (picture && hasSameStrips(picture.moment, moment)) {
    const groups = groupStrips(pool.data, moment);
    groups.forEach((group, k) => {
      picture.layout.heads[k].group = group;
    });
    pool.picture = { ...picture, moment, groups };
  } else relayout2(pool, moment);
  return recolor(pool);
}
function hasSameStrips(before, after) {
  if (before.device !== after.device || before.strips.length !== after.strips.length) return false;
  return after.strips.every(({ addr, bytes, pool, kind }, k) => {
    const other = before.strips[k];
    return addr === other.addr && bytes === other.bytes && pool === other.pool && kind === other.kind;
  });
}
function relayout2(pool, moment, anchor = null) {
  const groups = groupStrips(pool.data, moment);
  pool.width = Math.max(pool.scroller.clientWidth || pool.width, 160);
  const fitted = fitScale(moment, groups, pool.width, wantedHeight(pool, moment, groups));
  const layout2 = layoutStrips(moment, groups, pool.width, fitted / pool.zoom);
  pool.picture = { moment, groups, layout: layout2 };
  pool.height = Math.max(Math.min(layout2.height, MAX_HEIGHT3), MIN_HEIGHT2);
  pool.ratio = Math.min(devicePixelRatio || 1, 2);
  pool.scroller.style.height = `${pool.height}px`;
  pool.stage.style.height = `${pool.height}px`;
  pool.spacer.style.height = `${Math.max(layout2.height - pool.height, 0)}px`;
  for (const canvas of [pool.canvas, pool.over]) {
    canvas.width = Math.floor(pool.width * pool.ratio);
    canvas.height = Math.floor(pool.height * pool.ratio);
    canvas.style.width = `${pool.width}px`;
    canvas.style.height = `${pool.height}px`;
  }
  if (anchor) {
    const [box] = boxesOfHit(moment, layout2, anchor.hit);
    if (box) pool.scroller.scrollTop = box.y - anchor.y;
  }
  requestPaint3(pool);
}
function wantedHeight(pool, moment, groups) {
  pool.numLines = Math.max(pool.numLines, Math.ceil(moment.allocations.length / 4), moment.strips.length);
  return Math.min(MAX_HEIGHT3 - 4, groups.length * 26 + pool.numLines * LINE_HEIGHT);
}
function recolor(pool) {
  if (!pool.picture) return [];
  const { moment } = pool.picture;
  const { isDimmed } = pool;
  const coloring = coloringOf(pool.data, moment, pool.color, pool.theme);
  pool.colors = {
    coloring,
    codes: Uint16Array.from(moment.allocations, coloring.of),
    isDim: isDimmed && Uint8Array.from(moment.allocations, (allocation) => isDimmed(allocation) ? 1 : 0)
  };
  requestPaint3(pool);
  return coloring.legend;
}
function requestPaint3(pool) {
  if (pool.pending) return;
  pool.pending = requestAnimationFrame(() => {
    pool.pending = 0;
    const { picture, colors } = pool;
    if (picture && colors?.codes.length === picture.moment.allocations.length) paintPool(pool, picture, colors);
  });
}
function paintPool(pool, { moment, layout: layout2 }, colors) {
  const { data, theme, height, ratio } = pool;
  const began = performance.now();
  const style = getComputedStyle(pool.canvas);
  const [ink, font, top] = [style.color, style.fontFamily, pool.scroller.scrollTop];
  drawPool(contextOf(pool.canvas), { data, moment, layout: layout2, ...colors, theme, top, height, ratio, ink, font });
  paintMarks2(pool);
  pool.script.push(performance.now() - began);
  if (pool.script.length > 2e3) pool.script.splice(0, 1e3);
}
function paintMarks2(pool) {
  const { picture, hover: hover2, chosen } = pool;
  const context = contextOf(pool.over);
  context.setTransform(pool.ratio, 0, 0, pool.ratio, 0, 0);
  context.clearRect(0, 0, pool.width, pool.height);
  if (!picture) return;
  context.strokeStyle = getComputedStyle(pool.canvas).color;
  if (hover2) outline3(pool, picture, context, hover2, 1.5);
  if (chosen) outline3(pool, picture, context, chosen, 2.5);
}
function outline3({ scroller, height }, { moment, layout: layout2 }, context, hit, width) {
  if (hit.strip >= moment.strips.length) return;
  const top = scroller.scrollTop;
  context.lineWidth = width;
  for (const box of boxesOfHit(moment, layout2, hit)) {
    if (box.y + LINE_HEIGHT < top || box.y > top + height) continue;
    context.strokeRect(box.x - 0.5, box.y - top - 0.5, Math.max(box.width, 2) + 1, box.height + 1);
  }
}
function zoom(pool, factor, point2) {
  if (!pool.picture) return;
  const { moment, layout: layout2 } = pool.picture;
  const y = point2 ? point2.y : pool.height / 3;
  const hit = hitUnder(pool, { x: point2 ? point2.x : 1, y });
  const most = Math.max(MAX_LINES / Math.max(layout2.lines.length, 1) * pool.zoom, 1);
  pool.zoom = Math.min(Math.max(pool.zoom * factor, 1), most);
  pool.tip.hidden = true;
  relayout2(pool, moment, hit && { hit: { ...hit, bytes: Math.max(hit.bytes, 1) }, y });
}
function hitUnder({ data, picture, scroller }, { x, y }) {
  return picture && hitAtPoint(data, picture.moment, picture.layout, x, y + scroller.scrollTop);
}
function listenToPool(pool) {
  const { canvas, scroller } = pool;
  const pointOf2 = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const onWheel2 = (event) => {
    if (!(event.ctrlKey || event.metaKey) || !pool.picture) return;
    event.preventDefault();
    zoom(pool, Math.exp(-event.deltaY / 200), pointOf2(event));
  };
  scroller.addEventListener("scroll", () => requestPaint3(pool));
  scroller.addEventListener("wheel", onWheel2, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    const point2 = pointOf2(event);
    if (pool.picture) setHover2(pool, hitUnder(pool, point2), point2);
  });
  canvas.addEventListener("pointerleave", () => setHover2(pool, null, { x: 0, y: 0 }));
  canvas.addEventListener("click", (event) => {
    if (pool.picture) choose3(pool, hitUnder(pool, pointOf2(event)), false);
  });
  canvas.addEventListener(
    "keydown",
    (event) => onPoolKey(pool, event, {
      choose: (hit, isScrolled) => choose3(pool, hit, isScrolled),
      zoom: (factor) => zoom(pool, factor, null)
    })
  );
}
function setHover2(pool, hit, point2) {
  const { tip } = pool;
  const isSame = hit !== null && hit.strip === pool.hover?.strip && hit.from === pool.hover.from;
  pool.hover = hit;
  tip.hidden = !hit;
  if (hit) {
    if (!isSame) tip.replaceChildren(...pool.options.describe(hit).map((text) => element("div", {}, text)));
    const left = Math.min(point2.x + 14, pool.width - tip.offsetWidth - 4);
    const hasRoom = point2.y + 18 + tip.offsetHeight < pool.height;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${hasRoom ? point2.y + 18 : Math.max(point2.y - tip.offsetHeight - 8, 0)}px`;
  }
  if (!isSame) paintMarks2(pool);
}
function choose3(pool, hit, isScrolled) {
  const { picture, scroller, height, options } = pool;
  pool.chosen = hit;
  if (hit && picture && isScrolled) {
    const [box] = boxesOfHit(picture.moment, picture.layout, hit);
    const top = scroller.scrollTop;
    if (box && (box.y < top || box.y + LINE_HEIGHT > top + height)) scroller.scrollTop = box.y - height / 2;
  }
  if (picture) paintMarks2(pool);
  pool.spoken.textContent = hit ? options.describe(hit).join(", ") : "";
  options.onChoose(hit);
}

// js/memory/map.js
var SETTLE_MS = 80;
async function createMemoryMap(host, bytes, { theme }) {
  const map = createMap(await decodeMemory(bytes), theme);
  const { data, parts, curve, pool, flame } = map;
  host.replaceChildren(...parts.all);
  setDevice(map, map.device);
  if (map.peak) setMoment(map, map.peak.row, null);
  cancelAnimationFrame(map.pending);
  updateMoment(map);
  return {
    data,
    get moment() {
      return map.moment;
    },
    get chosen() {
      return map.chosen;
    },
    get since() {
      return map.since;
    },
    pool,
    curve,
    flame,
    showMoment: (row, since = null) => setMoment(map, row, since),
    showStretch: (range, origin) => showStretch(map, range, origin),
    showDevice: (device) => setDevice(map, device),
    setColor: (mode) => setColorMode(map, mode),
    setTheme(name) {
      curve.setTheme(name);
      legend(map, pool.setTheme(name));
      flame.setTheme(name);
    },
    resize() {
      for (const view of [curve, pool, flame]) view.resize();
    },
    destroy() {
      cancelAnimationFrame(map.pending);
      clearTimeout(map.settling);
      for (const view of [curve, pool, flame]) view.destroy();
      host.replaceChildren();
    }
  };
}
function createMap(data, theme) {
  const color = initialColorMode(data);
  const device = largestDevice(data);
  const moment = momentAt(data, device, data.numRows - 1);
  const state = {
    data,
    device,
    row: data.numRows - 1,
    since: null,
    moment,
    counted: moment.allocations,
    peak: null,
    by: color,
    picked: null,
    color,
    chosen: null,
    isInNode: null,
    isSettled: false,
    pending: 0,
    settling: void 0
  };
  const parts = buildParts(state, {
    onDevice: (k) => setDevice(map, k),
    onAxis: (isTime) => map.curve.setAxis(isTime),
    onPeak: () => map.peak && setMoment(map, map.peak.row, null),
    onEnd: () => setMoment(map, data.numRows - 1, null),
    onZoom: (factor) => map.pool.zoomBy(factor),
    onFit: () => map.pool.fit(),
    onColor: (mode) => setColorMode(map, mode),
    onGrouping: (by) => setGrouping(map, by)
  });
  const map = Object.assign(state, {
    parts,
    curve: createCurve(parts.curve, data, { theme, onMoment: (row, since) => setMoment(map, row, since) }),
    pool: createPoolMap(parts.map, data, {
      theme,
      color,
      describe: (hit) => describeHit(data, map.moment, hit),
      onChoose: (hit) => showChosen(map, hit)
    }),
    flame: createFlameGraph(parts.flame, data, {
      theme,
      onZoom(isInNode) {
        map.isInNode = isInNode;
        updateDimming(map);
      }
    })
  });
  return map;
}
function largestDevice({ header }) {
  const { devices } = header;
  return devices.reduce((best, one, k) => one.reserved_bytes > devices[best].reserved_bytes ? k : best, 0);
}
function initialColorMode({ allocations, stacks }) {
  return allocations.category.some((code) => code > 0) || !stacks.n ? "category" : "stack";
}
function setDevice(map, device) {
  const { data } = map;
  map.device = device;
  map.parts.devices.mark(String(device));
  map.picked = null;
  if (data.numRows) {
    const curves = curvesOf(data, device);
    const row = peakRowOf(curves.allocated);
    map.peak = { row, bytes: curves.allocated[row + 1] };
    const { index } = data.header.devices[device];
    const marks = data.header.marks.filter((mark) => mark.device === null || mark.device === index);
    map.curve.show(curves, map.peak, marks);
  }
  setMoment(map, map.row, map.since);
}
function setMoment(map, row, since) {
  map.row = row;
  map.since = since;
  if (map.data.numRows) map.curve.setMoment(row, since);
  cancelAnimationFrame(map.pending);
  map.pending = requestAnimationFrame(() => updateMoment(map));
}
function showStretch(map, [from, to], origin) {
  const { clock, header } = map.data;
  if (!clock) return;
  const shift = Number(BigInt(origin) - BigInt(header.t0));
  const [since, row] = [rowAtTime(clock, from + shift), rowAtTime(clock, to + shift)];
  setMoment(map, row, since === row ? null : since);
}
function updateMoment(map) {
  const { data, row, since, parts, chosen } = map;
  const { alloc } = data.allocations;
  map.moment = momentAt(data, map.device, row);
  map.counted = map.moment.allocations.filter((allocation) => since === null || alloc[allocation] > since);
  parts.moment.replaceChildren(...momentSummary(map));
  renderFragmentation(parts.bar, map.moment);
  legend(map, map.pool.show(map.moment));
  updateDimming(map);
  clearTimeout(map.settling);
  map.settling = setTimeout(() => updateSettled(map), map.isSettled ? SETTLE_MS : 0);
  if (chosen) map.pool.choose(hitOfAllocation(map, chosen.allocation));
}
function updateSettled(map) {
  map.isSettled = true;
  showHolders(map);
  map.flame.show(map.counted);
}
function hitOfAllocation({ data, moment }, allocation) {
  const { addr, bytes } = data.allocations;
  const k = allocation < 0 ? -1 : moment.allocations.indexOf(allocation);
  const strip = moment.strips.findIndex(({ first, end }) => first <= k && k < end);
  return strip < 0 ? null : { strip, allocation, from: addr[allocation], bytes: bytes[allocation] };
}
function momentSummary({ data, row, since, moment, counted, peak }) {
  const { sums } = moment;
  const when = whenText(data, row, peak);
  const blocks = formatPlural(moment.allocations.length, "block");
  const segments = formatPlural(moment.strips.length, "segment");
  const held = `${formatBytes(sums.allocated)} allocated in ${blocks}, ${formatBytes(sums.reserved)} reserved in ${segments}`;
  const pending = sums.pending ? `, ${formatBytes(sums.pending)} freed and waiting for a stream` : "";
  const outside = moment.outside ? `; ${formatPlural(moment.outside, "block")} in no known segment` : "";
  const made = since === null ? "" : madeText(data, counted, since);
  const before = row === data.numRows - 1 ? beforeText(data, moment) : "";
  return [element("strong", {}, `${when}: `), `${held}${pending}${outside}${before}.${made}`];
}
function beforeText({ allocations: { alloc, bytes } }, moment) {
  let sum = 0;
  for (const allocation of moment.allocations) if (alloc[allocation] < 0) sum += bytes[allocation];
  return sum ? `; ${formatBytes(sum)} of it from before the recording` : "";
}
function whenText(data, row, peak) {
  if (row === peak?.row) return `At the peak (${momentText(data, row)})`;
  if (row === data.numRows - 1) return "At the end";
  return row < 0 ? "Before the first action" : `After ${momentText(data, row)}`;
}
function madeText(data, counted, since) {
  const bytes = counted.reduce((sum, allocation) => sum + data.allocations.bytes[allocation], 0);
  const blocks = formatPlural(counted.length, "block");
  return ` ${formatBytes(bytes)} of it in ${blocks} came since ${momentText(data, since)} and stayed; the rest is pale.`;
}
function showHolders(map) {
  renderHolders(map.parts.holders, map.data, map.counted, {
    by: map.by,
    picked: map.picked,
    onPick(key) {
      map.picked = key;
      showHolders(map);
      updateDimming(map);
    }
  });
}
function updateDimming({ data, pool, since, picked, by, isInNode }) {
  if (since === null && picked === null && !isInNode) {
    pool.setDim(null);
    return;
  }
  const { alloc, stack } = data.allocations;
  pool.setDim(
    (allocation) => since !== null && alloc[allocation] <= since || picked !== null && groupKey(data, allocation, by) !== picked || isInNode !== null && !isInNode(stack[allocation])
  );
}
function setGrouping(map, by) {
  map.by = by;
  map.picked = null;
  showHolders(map);
  updateDimming(map);
}
function setColorMode(map, mode) {
  map.color = mode;
  map.parts.colors.mark(mode);
  legend(map, map.pool.setColor(mode));
}
function legend({ parts, moment }, entries) {
  showLegend(parts.legend, entries, moment.sums.pending > 0);
}
function showChosen(map, hit) {
  const { details } = map.parts;
  map.chosen = hit;
  const wasHidden = details.hidden;
  renderBlockDetails(details, map.data, map.moment, hit);
  if (wasHidden !== details.hidden) map.pool.resize();
}

// js/races/card.js
var COPIED_MS = 1500;
function buildCard(tree) {
  const card = buildElement(tree);
  const [diff] = findAll(card, ".cl-race-code", HTMLElement);
  if (diff) addCopyButton(diff);
  const [values] = findAll(card, ":scope > .cudalens-race-value", HTMLElement);
  if (values) addTabs(card, values);
  return card;
}
function addTabs(card, values) {
  const id = `cl-race-tab-${Math.random().toString(36).slice(2)}`;
  const parts = [...card.children].filter((node) => node !== values && !node.matches("h4, .cl-race-what"));
  const accesses = element("div", { class: "cl-race-panel" }, ...parts);
  const panels = [accesses, values];
  const tabs = ["Accesses", "Values"].map(
    (text, k) => element("button", { type: "button", role: "tab", id: `${id}-${k}`, "data-lm-suppress-shortcuts": "true" }, text)
  );
  const show = (at) => {
    for (const [k, tab] of tabs.entries()) {
      tab.setAttribute("aria-selected", String(k === at));
      tab.tabIndex = k === at ? 0 : -1;
      panels[k].hidden = k !== at;
    }
  };
  for (const [k, panel] of panels.entries()) {
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", `${id}-${k}`);
    tabs[k].addEventListener("click", () => show(k));
    tabs[k].addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      event.stopPropagation();
      show(1 - k);
      tabs[1 - k].focus();
    });
  }
  card.append(
    element("div", { class: "cl-race-tabs", role: "tablist", "aria-label": "What is known of the race" }, ...tabs),
    accesses,
    values
  );
  show(values.querySelector(".cl-value-confirmed") ? 1 : 0);
}
function addCopyButton(diff) {
  const text = diff.textContent;
  const frame = element("div", { class: "cl-race-copy" });
  const copy = element("button", { type: "button", class: "cl-button", "data-lm-suppress-shortcuts": "true" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = await copyText(text, diff) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => {
      copy.textContent = "Copy";
    }, COPIED_MS);
  });
  diff.replaceWith(frame);
  frame.append(diff, copy);
}
async function copyText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection()?.selectAllChildren(node);
    return document.execCommand("copy");
  }
}

// js/races/races.js
var MIN_RACES_TO_FILTER = 4;
var PAGE_ROWS = 10;
function createRaces(host, model, { onChoose } = {}) {
  const state = {
    model,
    onChoose,
    kind: null,
    at: 0,
    shown: model.races,
    cards: /* @__PURE__ */ new Map(),
    items: [],
    id: `cl-race-${Math.random().toString(36).slice(2)}`,
    list: element("ul", {
      class: "cl-race-list",
      role: "listbox",
      tabindex: "0",
      "aria-label": "Races, worst first",
      "data-lm-suppress-shortcuts": "true"
    }),
    card: element("div", { class: "cl-race-host", "aria-live": "polite" }),
    tools: element("div", { class: "cl-race-tools", role: "group", "aria-label": "Kinds of races" })
  };
  const isOne = model.races.length === 1;
  const body = isOne ? state.card : element("div", { class: "cl-race-split" }, state.list, state.card);
  if (!isOne) {
    fillTools(state);
    listenToList(state);
  }
  host.replaceChildren(...state.tools.childElementCount ? [state.tools] : [], body);
  fillList(state);
  return {
    choose: (row) => chooseRow(state, row),
    chosen: () => state.shown[state.at].row,
    setTheme() {
    },
    destroy: () => host.replaceChildren()
  };
}
function fillTools(state) {
  const { races, more } = state.model;
  const kinds = /* @__PURE__ */ new Map();
  for (const { kind, title } of races) kinds.set(kind, { title, number: (kinds.get(kind)?.number ?? 0) + 1 });
  if (kinds.size > 1 && races.length >= MIN_RACES_TO_FILTER) {
    const texts = [...kinds].map(([kind, { title, number }]) => ({ kind, text: `${title} ${formatCount(number)}` }));
    for (const { kind, text } of [{ kind: null, text: `all ${formatCount(races.length)}` }, ...texts]) {
      state.tools.append(kindButton(state, kind, text));
    }
  }
  if (more) {
    const text = `and ${formatPlural(more, "race")} more in trace.races`;
    state.tools.append(element("span", { class: "cl-hint" }, text));
  }
}
function kindButton(state, kind, text) {
  const press = () => {
    state.kind = kind;
    markKind(state);
    showKind(state);
  };
  const isPressed = String(kind === state.kind);
  const attributes = { type: "button", class: "cl-button", "aria-pressed": isPressed, onclick: press };
  return element("button", { ...attributes, "data-kind": kind ?? "" }, text);
}
function markKind({ tools, kind }) {
  for (const button of findAll(tools, "button", HTMLButtonElement)) {
    button.setAttribute("aria-pressed", String(button.dataset.kind === (kind ?? "")));
  }
}
function showKind(state) {
  const before = state.shown[state.at];
  state.shown = state.model.races.filter((race) => state.kind === null || race.kind === state.kind);
  state.at = Math.max(0, state.shown.indexOf(before));
  fillList(state);
}
function fillList(state) {
  state.items = state.shown.map((race, k) => listItem(state, race, k));
  state.list.replaceChildren(...state.items);
  showCard(state, state.at);
}
function listItem(state, race, k) {
  const number = state.model.races.indexOf(race) + 1;
  return element(
    "li",
    { role: "option", id: `${state.id}-${k}`, "aria-selected": "false", onclick: () => pickRace(state, k) },
    element("b", {}, `${formatCount(number)}. ${race.title}`),
    ` of ${race.tensor}, ${race.times}`,
    ...race.places.map((place) => element("small", {}, place))
  );
}
function showCard(state, at) {
  state.items[state.at]?.setAttribute("aria-selected", "false");
  state.at = at;
  const race = state.shown[at];
  const item = state.items[at];
  item.setAttribute("aria-selected", "true");
  state.list.setAttribute("aria-activedescendant", item.id);
  scrollListTo(state.list, item);
  const card = state.cards.get(race) ?? buildCard(race.card);
  state.cards.set(race, card);
  state.card.replaceChildren(card);
}
function scrollListTo(list, item) {
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight)
    list.scrollTop = top + item.offsetHeight - list.clientHeight;
}
function pickRace(state, at) {
  showCard(state, at);
  state.onChoose?.(state.shown[at]);
}
function chooseRow(state, row) {
  if (!state.shown.some((race) => race.row === row)) {
    state.kind = null;
    markKind(state);
    showKind(state);
  }
  const at = state.shown.findIndex((race) => race.row === row);
  if (at >= 0) showCard(state, at);
}
function listenToList(state) {
  state.list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = state.shown.length - 1;
    const steps = {
      ArrowDown: state.at + 1,
      ArrowUp: state.at - 1,
      Home: 0,
      End: last,
      PageDown: state.at + PAGE_ROWS,
      PageUp: state.at - PAGE_ROWS
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    pickRace(state, Math.min(Math.max(steps[event.key], 0), last));
  });
}

// js/shared/libraries.js
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
async function inflateJson(bytes) {
  return JSON.parse(new TextDecoder().decode(await inflate(bytes)));
}
var SHARED_KEY = /* @__PURE__ */ Symbol.for("cudalens.libraries");
function sharedLibraries() {
  const page = (
    /** @type {{ [SHARED_KEY]?: Map<string, Promise<{ default: unknown }>> }} */
    globalThis
  );
  page[SHARED_KEY] ??= /* @__PURE__ */ new Map();
  return page[SHARED_KEY];
}
async function loadLibrary(name, version, fetchBytes) {
  const libraries = sharedLibraries();
  const key = `${name}@${version}`;
  let loading = libraries.get(key);
  if (loading === void 0) {
    loading = fetchBytes(name).then(inflate).then(importBytes);
    loading.catch(() => libraries.delete(key));
    libraries.set(key, loading);
  }
  return (await loading).default;
}
var CLAIMED = ["$", "moduleName"];
async function importBytes(bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  const before = CLAIMED.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  try {
    const module = await import(url);
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

// js/shared/tabs.js
function createTabs(host, label, tabs) {
  const own = Math.random().toString(36).slice(2);
  const filled = /* @__PURE__ */ new Set();
  let current = "";
  const panels = tabs.map(
    ({ key }) => element("div", { id: `cl-${own}-${key}`, class: "cl-tab-panel", role: "tabpanel", hidden: true })
  );
  const buttons = tabs.map(
    ({ key, title }) => element(
      "button",
      {
        type: "button",
        class: "cl-tab",
        role: "tab",
        "data-key": key,
        "aria-controls": `cl-${own}-${key}`,
        "data-lm-suppress-shortcuts": "true",
        onclick: () => show(key)
      },
      title
    )
  );
  const show = (key) => {
    current = key;
    tabs.forEach((tab, k) => {
      const isShown = tab.key === key;
      buttons[k].setAttribute("aria-selected", String(isShown));
      buttons[k].tabIndex = isShown ? 0 : -1;
      panels[k].hidden = !isShown;
      if (!isShown || filled.has(key)) return;
      filled.add(key);
      tab.fill(panels[k]);
    });
  };
  const list = element("div", { class: "cl-tabs", role: "tablist", "aria-label": label }, ...buttons);
  list.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === void 0) return;
    const k = (buttons.findIndex((button) => button.dataset.key === current) + by + tabs.length) % tabs.length;
    show(tabs[k].key);
    buttons[k].focus();
    event.preventDefault();
    event.stopPropagation();
  });
  host.replaceChildren(list, ...panels);
  if (tabs.length) show(tabs[0].key);
  return { show, current: () => current };
}

// js/table/aggregate.js
var STEP_NAME = "ProfilerStep*";
var UNCOUNTED_CATS = /* @__PURE__ */ new Set(["Trace", "overhead", "gpu_user_annotation", "cuda_sync"]);
function costBasis(data) {
  const self = Float64Array.from(data.self);
  const head = new Int32Array(data.n);
  for (let i = 0; i < data.n; i++) {
    head[i] = data.flags[i] & EVENT_FLAGS.folded ? head[data.parent[i]] : i;
    if (head[i] !== i) self[head[i]] += data.self[i];
  }
  const group = Uint32Array.from(data.header.names.keys());
  const steps = data.header.step_names;
  for (const id of steps) group[id] = steps[0];
  const device = Uint8Array.from(data.header.lanes, (lane) => +(lane.kind === "device"));
  return { self, group, steps, device };
}
function aggregate(data, basis, mask) {
  const skip = EVENT_FLAGS.folded | EVENT_FLAGS.instant;
  const rows = /* @__PURE__ */ new Map();
  for (let i = 0; i < data.n; i++) {
    if (mask !== null && !mask[i] || data.flags[i] & skip) continue;
    const side = basis.device[data.lane[i]];
    const key = basis.group[data.name[i]] * 2 + side;
    let row = rows.get(key);
    if (row === void 0) {
      row = emptyRow(data, basis, i, side);
      rows.set(key, row);
    }
    row.self += basis.self[i];
    if (!(data.flags[i] & EVENT_FLAGS.waiting)) row.cost += basis.self[i];
    addDuration(row, data.dur[i]);
  }
  return withShares([...rows.values()]);
}
function emptyRow(data, basis, i, side) {
  const id = basis.group[data.name[i]];
  const isStep = basis.steps.includes(id);
  return {
    ids: isStep ? basis.steps : [id],
    name: isStep ? STEP_NAME : data.header.names[id],
    short: isStep ? STEP_NAME : shortName(data.header, id),
    side,
    cat: data.header.cats[data.cat[i]],
    count: 0,
    total: 0,
    self: 0,
    cost: 0,
    min: Infinity,
    max: -Infinity,
    mean: 0,
    spread: 0
  };
}
function addDuration(row, dur) {
  row.count += 1;
  row.total += dur;
  row.min = Math.min(row.min, dur);
  row.max = Math.max(row.max, dur);
  const off = dur - row.mean;
  row.mean += off / row.count;
  row.spread += off * (dur - row.mean);
}
function withShares(rows) {
  const weight = (row) => UNCOUNTED_CATS.has(row.cat) ? 0 : row.cost;
  const whole = [0, 0];
  for (const row of rows) whole[row.side] += weight(row);
  return rows.map(({ spread, cost, ...row }) => ({
    ...row,
    mean: row.total / row.count,
    std: row.count > 1 ? Math.sqrt(spread / (row.count - 1)) : null,
    share: whole[row.side] > 0 ? 100 * weight({ ...row, cost }) / whole[row.side] : 0
  }));
}

// js/table/columns.js
var KIND_LABELS2 = {
  cpu_op: "CPU op",
  user_annotation: "range",
  gpu_user_annotation: "GPU range",
  cuda_runtime: "runtime",
  cuda_driver: "driver",
  kernel: "kernel",
  gpu_memcpy: "copy",
  gpu_memset: "set",
  python_function: "Python",
  cuda_sync: "sync",
  overhead: "overhead"
};
function meanHtml({ mean, std }) {
  const spread = std !== null ? ` <span class="spread">± ${formatDuration(std)}</span>` : "";
  return `${formatDuration(mean)}${spread}`;
}
function shareHtml({ share, side }) {
  const of = side ? "GPU" : "CPU";
  return `<span class="bar"><i style="width:${share.toFixed(1)}%"></i></span>${formatPercent(share)} ${of}`;
}
function nameHtml({ name, short }) {
  return `<span class="name" title="${escapeHtml(name)}">${escapeHtml(short)}</span>`;
}
function kindText({ cat }) {
  return KIND_LABELS2[cat] ?? cat;
}
function column(title, key, value, html) {
  const isText = key === "name" || key === "cat";
  return {
    title,
    data: key,
    ...isText ? {} : { className: "number" },
    render: (_, type, row) => type === "display" ? html(row) : value(row),
    searchable: isText,
    orderSequence: ["desc", "asc"]
  };
}
function timeColumn(title, key) {
  return column(
    title,
    key,
    (row) => row[key],
    (row) => formatDuration(row[key])
  );
}
var COLUMNS2 = [
  column("Name", "name", (row) => `${row.short} ${row.name}`, nameHtml),
  column("Kind", "cat", kindText, (row) => `<span class="kind">${escapeHtml(kindText(row))}</span>`),
  column(
    "Count",
    "count",
    (row) => row.count,
    (row) => formatCount(row.count)
  ),
  timeColumn("Total", "total"),
  timeColumn("Self", "self"),
  column("Mean ± sd", "mean", (row) => row.mean, meanHtml),
  timeColumn("Min", "min"),
  timeColumn("Max", "max"),
  column("Share of self", "share", (row) => row.share, shareHtml)
];
function placeOf2(key) {
  return COLUMNS2.findIndex((one) => one.data === key);
}
var SHARE_COLUMN = placeOf2("share");
var HIDDEN_BELOW = [
  { width: 1e3, columns: [placeOf2("min"), placeOf2("max")] },
  { width: 760, columns: [placeOf2("cat"), placeOf2("total")] },
  { width: 600, columns: [placeOf2("mean"), placeOf2("count")] }
];

// js/table/style.js
var STYLE2 = `
:host { display: block; container-type: inline-size; --dt-html-background: transparent; --dt-row-selected: var(--cl-selected-rgb); font: inherit; color: inherit; }
:host([hidden]) { display: none; }
div.dt-container { background: transparent; color: inherit; font-size: 13px; }
div.dt-container div.dt-layout-row { margin: 6px 0; gap: 8px; }
div.dt-container .dt-info, div.dt-container .dt-length label, div.dt-container .dt-search label { color: var(--cl-muted); font-size: 12px; }
div.dt-container .dt-input { border: 1px solid var(--cl-line) !important; border-radius: 6px; padding: 4px 8px; font: inherit; background: var(--cl-field) !important; color: inherit; }
div.dt-container .dt-input:focus-visible, tr:focus-visible, th:focus-visible, button:focus-visible { outline: 2px solid var(--cl-accent); outline-offset: -1px; }
div.dt-container .dt-search input { min-width: 14em; margin-left: 0; }
div.dt-container .dt-paging .dt-paging-button { padding: 2px 8px; border-radius: 6px; border: 1px solid transparent !important; font: inherit; }
div.dt-container .dt-paging .dt-paging-button:hover, div.dt-container .dt-paging .dt-paging-button.current { background: var(--cl-hover) !important; color: inherit !important; border-color: var(--cl-line) !important; box-shadow: none; }
div.dt-container .dt-paging .dt-paging-button.disabled { opacity: 0.4; background: transparent !important; }
div.sides { display: inline-flex; vertical-align: middle; border: 1px solid var(--cl-line); border-radius: 6px; overflow: hidden; }
div.sides button { border: 0; background: none; color: inherit; font: inherit; font-size: 12px; padding: 3px 12px; cursor: pointer; }
div.sides button + button { border-left: 1px solid var(--cl-line); }
div.sides button[aria-pressed="true"] { background: var(--cl-chosen); font-weight: 600; }
div.dt-container .dt-info { display: inline-block; }
table.dataTable { width: 100% !important; border-collapse: collapse !important; font-variant-numeric: tabular-nums; table-layout: auto; }
table.dataTable > thead > tr > th .dt-column-header { gap: 4px; }
table.dataTable > thead > tr > th { border-bottom: 1px solid var(--cl-line) !important; padding: 6px 10px; font-weight: 600; font-size: 12px; color: var(--cl-muted); white-space: nowrap; text-align: left; }
table.dataTable > thead > tr > th.number, table.dataTable > tbody > tr > td.number { text-align: right; }
table.dataTable > tbody > tr > td { border-top: 1px solid var(--cl-line-soft); padding: 4px 10px; white-space: nowrap; box-shadow: none !important; color: inherit; }
table.dataTable > tbody > tr:first-child > td { border-top: 0; }
table.dataTable > tbody > tr { cursor: pointer; background: transparent !important; }
table.dataTable > tbody > tr:hover > td { background: var(--cl-hover); }
table.dataTable > tbody > tr.chosen > td { background: var(--cl-chosen); }
table.dataTable > tbody > tr.chosen > td:first-child { box-shadow: inset 3px 0 0 var(--cl-accent) !important; }
table.dataTable > tbody > tr > td.dt-empty { text-align: center; color: var(--cl-muted); padding: 18px; cursor: default; }
td .name { display: inline-block; max-width: clamp(16em, calc(100cqw - 700px), 70em); overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; font-family: var(--cl-mono); font-size: 12px; }
td .kind { color: var(--cl-muted); font-size: 12px; }
td .spread { color: var(--cl-muted); }
td .bar { display: inline-block; width: 56px; height: 8px; margin-right: 8px; border-radius: 2px; background: var(--cl-line-soft); vertical-align: middle; overflow: hidden; text-align: left; }
td .bar i { display: block; height: 100%; background: var(--cl-accent); }
:host([data-view="narrow"]) :is(td .bar, td .spread) { display: none; }
:host([data-view="narrow"]) td .name { max-width: clamp(12em, calc(100cqw - 460px), 70em); }
:host([data-slim]) td .name { max-width: clamp(12em, calc(100cqw - 250px), 70em); }
:host([data-view="whole"]) { overflow-x: auto; }
button.columns { display: none; border: 1px solid var(--cl-line); border-radius: 6px; background: none; color: inherit; font: inherit; font-size: 12px; padding: 3px 10px; cursor: pointer; }
button.columns[aria-pressed="true"] { background: var(--cl-chosen); }
:host(:is([data-view="narrow"], [data-view="whole"])) button.columns { display: inline-block; }
@media print { div.dt-layout-row:not(.dt-layout-table) { display: none !important; } }
`;

// js/table/table.js
var SIDES = [
  ["All", null],
  ["GPU", 1],
  ["CPU", 0]
];
function createTable(host, data, { DataTable, styleSheet, theme, onNames }) {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const node = element("table", { class: "display compact", "aria-label": "Costs by name" });
  shadow.replaceChildren(element("style", {}, styleSheet), element("style", {}, STYLE2), node);
  DataTable.ext.errMode = "throw";
  const basis = costBasis(data);
  const hasBoth = new Set(basis.device).size > 1;
  const state = { rows: [], side: null, chosen: /* @__PURE__ */ new Set(), width: 0, isWhole: false };
  const table = new DataTable(node, {
    ...tableOptions(),
    layout: {
      topStart: hasBoth ? [() => sideButtons(state, () => fill(table, state)), "info"] : "info",
      topEnd: "search",
      bottomStart: "pageLength",
      bottomEnd: "paging"
    },
    rowCallback: (row, costs) => markRow(row, costs, state.chosen)
  });
  listenToRows(table, state, node, onNames);
  const all = columnsButton(state, () => fitColumns(table, state, host));
  shadow.append(all);
  const observer = new ResizeObserver(() => fitColumns(table, state, host));
  observer.observe(host);
  fitColumns(table, state, host);
  const setTheme = (name) => void host.classList.toggle("dark", name === "dark");
  setTheme(theme);
  return {
    update(mask) {
      state.rows = aggregate(data, basis, mask);
      fill(table, state);
    },
    choose(names) {
      state.chosen = names ?? /* @__PURE__ */ new Set();
      table.rows({ page: "current" }).every(function visit() {
        markRow(this.node(), this.data(), state.chosen);
      });
    },
    setTheme,
    rows: () => state.rows,
    destroy() {
      observer.disconnect();
      table.destroy();
      shadow.replaceChildren();
    }
  };
}
function tableOptions() {
  return {
    columns: COLUMNS2,
    data: [],
    order: [[SHARE_COLUMN, "desc"]],
    pageLength: 10,
    lengthMenu: [10, 25, 50, 100, { label: "all", value: -1 }],
    language: {
      search: "",
      searchPlaceholder: "Filter names",
      info: "_START_–_END_ of _TOTAL_ names",
      infoEmpty: "no names",
      infoFiltered: "(of _MAX_)",
      lengthMenu: "_MENU_ a page",
      emptyTable: "Nothing is selected here",
      zeroRecords: "No name matches the filter"
    },
    autoWidth: false,
    deferRender: true
  };
}
function fill(table, { rows, side }) {
  table.clear().rows.add(rows.filter((row) => side === null || row.side === side)).draw();
}
function sideButtons(state, onChange) {
  const group = element("div", { class: "sides", role: "group", "aria-label": "Where the time went" });
  for (const [label, side] of SIDES) {
    const press = () => {
      state.side = side;
      for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === label));
      onChange();
    };
    group.append(element("button", { type: "button", "aria-pressed": String(side === null), onclick: press }, label));
  }
  return group;
}
function markRow(node, row, chosen) {
  const isChosen = row.ids.some((id) => chosen.has(id));
  node.classList.toggle("chosen", isChosen);
  node.setAttribute("aria-selected", String(isChosen));
  node.tabIndex = 0;
}
function listenToRows(table, state, node, onNames) {
  const toggle = (event) => {
    const found = event.composedPath().find(isBodyRow);
    const row = found && table.row(found).data();
    if (!row) return;
    const names = toggled(state.chosen, row.ids, event.ctrlKey || event.metaKey || event.shiftKey);
    onNames(names.size ? names : null);
  };
  node.addEventListener("click", toggle);
  node.addEventListener("keydown", (event) => {
    const [target] = event.composedPath();
    if (event.key !== "Enter" && event.key !== " " || !(target instanceof HTMLTableRowElement)) return;
    event.preventDefault();
    toggle(event);
  });
}
function isBodyRow(node) {
  return node instanceof HTMLTableRowElement && node.parentElement?.tagName === "TBODY";
}
function toggled(chosen, ids, isAdding) {
  const isIn = ids.every((id) => chosen.has(id));
  const isAlone = isIn && chosen.size === ids.length;
  const next = new Set(isAdding ? chosen : []);
  for (const id of ids) {
    if (isAdding && isIn) next.delete(id);
    else if (isAdding || !isAlone) next.add(id);
  }
  return next;
}
function fitColumns(table, state, host) {
  const width = state.isWhole ? Infinity : host.clientWidth;
  if (width === 0 || width === state.width) return;
  state.width = width;
  const isNarrow = host.clientWidth < HIDDEN_BELOW[0].width;
  host.setAttribute("data-view", isNarrow ? state.isWhole ? "whole" : "narrow" : "wide");
  host.toggleAttribute("data-slim", width < HIDDEN_BELOW[2].width);
  for (const { width: least, columns } of HIDDEN_BELOW) table.columns(columns).visible(width >= least);
}
function columnsButton(state, onChange) {
  const press = () => {
    state.isWhole = !state.isWhole;
    button.setAttribute("aria-pressed", String(state.isWhole));
    onChange();
  };
  const button = element(
    "button",
    { type: "button", class: "columns", "aria-pressed": "false", onclick: press },
    "All columns"
  );
  return button;
}

// js/app/panels.js
async function startRaces({ source, parts, panels, isClosed }) {
  const model = await inflateJson(await source.races());
  if (isClosed()) return;
  const host = element("div", { class: "cudalens-races" });
  const { hasProfile, hasGraphs } = source.facts;
  parts.races.append(...hasProfile || hasGraphs ? [element("h3", { "aria-level": 2 }, "Races")] : [], host);
  parts.races.hidden = false;
  panels.races = createRaces(host, model, { onChoose: (race) => panels.timeline?.showRace(race.row) });
}
async function startGraphs({ source, parts, panels, isClosed }) {
  const model = await inflateJson(await source.graphs());
  if (isClosed()) return;
  const host = element("div", { class: "cudalens-graphs" });
  const { hasProfile, hasRaces } = source.facts;
  parts.graphs.append(...hasProfile || hasRaces ? [element("h3", { "aria-level": 2 }, "CUDA graphs")] : [], host);
  parts.graphs.hidden = false;
  panels.graphs = createGraphs(host, model);
}
async function startMemoryMap(app) {
  const { source, parts } = app;
  const { memoryMap, memoryFirst } = source.facts;
  const bytes = await source.memory();
  if (app.isClosed()) return;
  const host = element("div", { class: "mm-host" });
  const tables = element("div", { class: "cudalens-memory" }, ...memoryMap ? [buildElement(memoryMap)] : []);
  parts.memoryMap.append(...memoryFirst ? [] : [element("h3", { "aria-level": 2 }, "Memory")], host, tables);
  parts.memoryMap.hidden = false;
  app.panels.memoryMap = await createMemoryMap(host, bytes, { theme: app.theme });
}
function startFindings({ source, parts, store }, data) {
  if (!source.facts.findings) return;
  parts.findings.append(buildElement(source.facts.findings));
  makeRowsPressable(parts.findings, "tbody tr[data-event]", (row) => {
    const event = data.row.indexOf(Number(row.dataset.event));
    if (event >= 0) store.set({ event, range: null, names: null }, "findings");
    return event >= 0;
  });
  parts.findings.hidden = false;
}
function startSyncs({ source, parts, panels }) {
  if (!source.facts.syncs) return;
  parts.syncs.append(buildElement(source.facts.syncs));
  makeRowsPressable(parts.syncs, "tbody tr", (_, group) => {
    panels.timeline?.showSync(group);
    return true;
  });
  parts.syncs.hidden = false;
}
function makeRowsPressable(host, selector, show) {
  const rows = findAll(host, selector, HTMLElement);
  rows.forEach((row, number) => {
    const press = () => {
      if (!show(row, number)) return;
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
    };
    row.tabIndex = 0;
    row.addEventListener("click", press);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") press();
    });
  });
}
function startTabs(app, data) {
  const { parts, panels, source, store } = app;
  return createTabs(parts.table, "Costs", [
    { key: "table", title: "Operators and kernels", fill: (host) => host.append(parts.tableHost) },
    {
      key: "flame",
      title: "Flame graph",
      fill(host) {
        panels.flame = createTimeFlame(host, data, {
          theme: app.theme,
          baseline: source.facts.baseline,
          onEvent: (event) => store.set({ event, range: null, names: null }, "flame")
        });
        panels.flame.update(store.get());
      }
    },
    ...SECTION_TABS.flatMap(([key, title]) => {
      const tree = source.facts[key];
      return tree ? [{ key, title, fill: (host) => fillSection(app, data, host, key, tree) }] : [];
    })
  ]);
}
var SECTION_TABS = [
  ["lines", "Lines"],
  ["modules", "Modules"],
  ["steps", "Steps"]
];
function fillSection({ store }, data, host, name, tree) {
  const section2 = element("div", { class: `cudalens-${name}` }, buildElement(tree));
  for (const details of section2.querySelectorAll("details:first-child")) details.setAttribute("open", "");
  host.append(section2);
  makeRowsPressable(section2, "tbody tr[data-event]", (row) => {
    const event = data.row.indexOf(Number(row.dataset.event));
    if (event >= 0) store.set({ event, range: null, names: null }, name);
    return event >= 0;
  });
}
async function startTable(app, data) {
  const { asset, versions } = app.source;
  const [library, style] = await Promise.all([
    loadLibrary("datatables.js", versions.datatables, asset),
    asset("datatables.css").then(inflate)
  ]);
  if (app.isClosed()) return;
  app.panels.table = createTable(app.parts.tableHost, data, {
    DataTable: (
      /** @type {DataTableClass} */
      library
    ),
    styleSheet: new TextDecoder().decode(style),
    theme: app.theme,
    onNames: (names) => app.store.set({ names }, "table")
  });
}
function startMetrics({ source, parts, panels, theme }, data) {
  if (!data.metrics.length) return;
  const host = element("div", { class: "cl-metrics-host" });
  const heading = element("h3", { "aria-level": 2 }, "GPU readings", element("span", {}, source.facts.metrics ?? ""));
  parts.metrics.replaceChildren(heading, host);
  parts.metrics.hidden = false;
  const view = windowOf(data, data.metrics);
  panels.metrics = createMetrics(host, data.metrics, data.header.metrics.gauges, { theme, view });
}
async function startMemory(app, data) {
  const { parts, panels, source, store } = app;
  const series = memorySeries(data);
  const heading = element("h3", { "aria-level": 2 }, "Memory");
  if (panels.memoryMap || !series.length) {
    parts.memory.hidden = true;
    return;
  }
  const host = element("div", { class: "cl-plot-host" });
  parts.memory.replaceChildren(heading, host);
  const library = await loadLibrary("plotly.js", source.versions.plotly, source.asset);
  if (app.isClosed()) return;
  const plot = createMemoryPlot(host, series, {
    Plotly: (
      /** @type {Plotly} */
      library
    ),
    theme: app.theme,
    view: windowOf(data, series),
    onRange: (range2) => store.set({ range: range2 }, "memory")
  });
  panels.memory = plot;
  await plot.ready;
  const { range } = store.get();
  if (range) plot.setRange(range);
}
function memorySeries(data) {
  return data.memory.map(({ label, ts, allocated }) => {
    const known = [...allocated.keys()].filter((i) => !Number.isNaN(allocated[i]));
    return {
      label,
      ts: Float64Array.from(known, (i) => ts[i]),
      values: Float64Array.from(known, (i) => allocated[i])
    };
  }).filter((series) => series.ts.length);
}
function windowOf(data, series) {
  if (data.n) return fitWindow(timelineExtent(data, true));
  const ends = series.flatMap(({ ts }) => [ts[0], ts[ts.length - 1]]);
  return [Math.min(...ends), Math.max(...ends) + 1];
}

// js/app/permalink.js
var MAX_NAMES = 20;
function hashOf(data, view, { range, event, names }) {
  const parts = [`t=${rangeText(view)}`];
  if (range) parts.push(`s=${rangeText(range)}`);
  if (event !== null) parts.push(`e=${data.row[event]}`);
  for (const id of [...names ?? []].slice(0, MAX_NAMES)) parts.push(`n=${encodeURIComponent(data.header.names[id])}`);
  return `#${parts.join("&")}`;
}
function rangeText([from, to]) {
  return `${Math.round(from)}-${Math.round(to)}`.replace("--", "-n").replace(/^-/, "n");
}
function shownOf(data, hash) {
  const fields = new URLSearchParams(hash.replace(/^#/, ""));
  const selection = {};
  const range = rangeOf(fields.get("s"));
  if (range) selection.range = range;
  const row = Number.parseInt(fields.get("e") ?? "", 10);
  const event = Number.isInteger(row) ? data.row.indexOf(row) : -1;
  if (event >= 0) selection.event = event;
  const names = fields.getAll("n").map((name) => data.header.names.indexOf(name));
  const known = names.filter((id) => id >= 0);
  if (known.length) selection.names = new Set(known);
  return { view: rangeOf(fields.get("t")), selection };
}
function rangeOf(text) {
  const found = /^(n?\d{1,16})-(n?\d{1,16})$/.exec(text ?? "");
  if (!found) return null;
  const [from, to] = [found[1], found[2]].map((part) => Number(part.replace("n", "-")));
  return from < to ? [from, to] : null;
}

// js/app/pandas.js
var MAX_ROWS3 = 2e3;
function pandasExpression(data, selection) {
  const { range, event, names } = selection;
  if (event !== null) return rowsExpression(data, selection);
  const parts = [];
  if (range) {
    const at = (t) => String(BigInt(data.header.t0) + BigInt(t));
    const [low, high] = [Math.floor(range[0]), Math.ceil(range[1])];
    parts.push(
      `((e.ts < ${at(high)}) & (e.ts + e.dur > ${at(low)}) & (e.dur > 0) | (e.dur == 0) & e.ts.between(${at(Math.ceil(range[0]))}, ${at(Math.floor(range[1]))}))`
    );
  }
  if (names) parts.push(`e.name.isin(${pythonList([...names].map((id) => data.header.names[id]))})`);
  return parts.length ? `trace.events[lambda e: ${parts.join(" & ")}]` : "trace.events";
}
function rowsExpression(data, selection) {
  const mask = selectedMask(data, selection);
  const rows = [];
  for (let i = 0; i < data.n; i++) {
    if (mask?.[i]) rows.push(data.row[i]);
    if (rows.length > MAX_ROWS3) return null;
  }
  return `trace.events.iloc[[${rows.sort((a, b) => a - b).join(", ")}]]`;
}
function pythonList(texts) {
  const escaped = (text) => JSON.stringify(text).replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `[${texts.map(escaped).join(", ")}]`;
}

// js/app/same_name.js
function stepSameName(data, { event, names }, by) {
  const wanted = names ?? (event === null ? null : /* @__PURE__ */ new Set([data.name[event]]));
  if (wanted === null) return null;
  const isDevice = event === null ? null : data.header.lanes[data.lane[event]].kind;
  const found = [];
  for (let i = 0; i < data.n; i++) {
    const isSide = isDevice === null || names !== null || data.header.lanes[data.lane[i]].kind === isDevice;
    if (wanted.has(data.name[i]) && isSide) found.push(i);
  }
  if (!found.length) return null;
  found.sort((a, b) => data.start[a] - data.start[b] || a - b);
  const at = event === null ? -1 : found.indexOf(event);
  const next = at < 0 ? longest(data, found) : (at + by + found.length) % found.length;
  return { event: found[next], ordinal: next + 1, count: found.length };
}
function longest({ dur }, found) {
  return found.reduce((best, i, k) => dur[i] > dur[found[best]] ? k : best, 0);
}

// js/app/selection_bar.js
function showBar(bar, data, store, actions) {
  const selection = store.get();
  const mask = selectedMask(data, selection);
  bar.hidden = mask === null;
  if (mask === null) return;
  const number = mask.reduce((sum, one) => sum + one, 0);
  const link = actions.link();
  bar.replaceChildren(
    element("span", { class: "cl-bar-count" }, `${formatPlural(number, "event")} of ${formatCount(data.n)} selected`),
    ...selectionTexts(data, selection).map(([key, text]) => selectionChip(store, key, text)),
    ...selection.range ? [element("span", { class: "cl-measure" }, measureText(data, selection.range))] : [],
    ...sameNameButtons(data, store),
    copyButton("Copy pandas", "Copy the expression that selects these rows", pandasExpression(data, selection)),
    ...link === null ? [] : [copyButton("Copy link", "Copy the address of what shows", link)],
    element(
      "button",
      { class: "cl-button cl-clear", type: "button", onclick: () => store.clear("bar") },
      "Clear selection"
    )
  );
}
function measureText(data, range) {
  const { busy, idle, work, calls } = measureRange(data, range);
  const host = `${formatPlural(calls, "CPU event")}`;
  if (!data.header.lanes.some(({ kind, count }) => kind === "device" && count)) return host;
  const share = formatPercent(100 * busy / (range[1] - range[0]));
  return `GPU busy ${formatDuration(busy)} (${share}), idle ${formatDuration(idle)}; ${formatPlural(work, "GPU event")}, ${host}`;
}
function sameNameButtons(data, store) {
  const { event, names } = store.get();
  if (event === null && names === null) return [];
  const go = (by) => () => {
    const found = stepSameName(data, store.get(), by);
    if (found) store.set({ event: found.event, names: null, range: null }, "bar");
  };
  const button = (text, title, by) => element("button", { class: "cl-button", type: "button", title, "aria-label": title, onclick: go(by) }, text);
  if (event === null) return [button("Go to the longest", "Select the longest event of this name", 1)];
  return [
    button("‹ same name", "Previous event of this name", -1),
    button("same name ›", "Next event of this name", 1)
  ];
}
function copyButton(label, title, text) {
  const copy = async () => {
    if (text === null) return;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.replaceWith(element("code", { class: "cl-copy-text", tabindex: 0 }, text));
    }
  };
  const attributes = {
    class: "cl-button cl-copy",
    type: "button",
    title: text === null ? "More than 2,000 rows" : title
  };
  const button = element("button", { ...attributes, disabled: text === null, "data-text": text, onclick: copy }, label);
  return button;
}
function selectionTexts(data, { range, event, names }) {
  const texts = [];
  if (range) {
    const [from, to] = range;
    texts.push(["range", `${formatDuration(from)} – ${formatDuration(to)} (${formatDuration(to - from)})`]);
  }
  if (event !== null) texts.push(["event", `within ${shortName(data.header, data.name[event])}`]);
  if (names) {
    const [first] = [...names].map((id) => shortName(data.header, id));
    texts.push(["names", names.size === 1 ? first : `${first} and ${names.size - 1} more`]);
  }
  return texts;
}
function selectionChip(store, key, text) {
  const drop = () => store.set({ [key]: null }, "bar");
  return element(
    "span",
    { class: "cl-chip", title: text },
    element("span", {}, text),
    element("button", { type: "button", "aria-label": `Stop selecting ${text}`, onclick: drop }, "×")
  );
}

// js/app/skeleton.js
function buildSkeleton(root, facts) {
  const tableHost = element("div", { class: "cl-table-host" });
  const parts = {
    verdict: element("p", { class: "cl-verdict" }, ...badgeParts(facts.badge), ...verdictParts(facts.verdict)),
    message: element("div", { class: "cl-message", role: "alert", hidden: true }),
    status: element("p", { class: "cl-hint cl-status" }, "Loading the timeline…"),
    races: section("cl-races", "Races"),
    graphs: section("cl-graphs", "CUDA graphs"),
    findings: section("cudalens-findings", "Findings"),
    memoryMap: section("cl-memory-map", "Memory"),
    timeline: element("div", { class: "cl-timeline" }),
    metrics: section("cl-metrics", "Readings of the GPUs"),
    syncs: section("cudalens-syncs", "Waits for the GPU"),
    bar: element("div", { class: "cl-bar", hidden: true }),
    table: section("cl-panel cl-table", "Costs"),
    tableHost,
    details: section("cl-panel cl-details", "Details of the selected event"),
    memory: section("cl-panel cl-memory", "Memory curve")
  };
  root.replaceChildren(
    parts.verdict,
    ...supportParts(facts.details),
    ...noteList(facts.notes),
    parts.message,
    parts.status,
    ...facts.graphsFirst ? [parts.graphs, parts.races] : [parts.races, parts.graphs],
    ...facts.memoryFirst ? [parts.memoryMap] : [],
    parts.timeline,
    parts.bar,
    parts.metrics,
    parts.findings,
    parts.syncs,
    element("div", { class: "cl-columns" }, parts.table, parts.details),
    parts.memory,
    ...facts.memoryFirst ? [] : [parts.memoryMap]
  );
  return parts;
}
function section(name, label, ...children) {
  return element("section", { class: name, "aria-label": label, hidden: true }, ...children);
}
function badgeParts(badge) {
  return badge ? [element("span", { class: "cl-badge" }, badge), " "] : [];
}
function verdictParts(verdict) {
  const at = verdict.indexOf("; ");
  if (at < 0) return [element("strong", {}, verdict)];
  return [element("strong", {}, verdict.slice(0, at)), verdict.slice(at)];
}
function supportParts(details) {
  if (!details) return [];
  return [
    element("details", { class: "cl-support" }, element("summary", {}, "more figures"), element("p", {}, details))
  ];
}
function noteList(notes = []) {
  if (!notes.length) return [];
  return [element("ul", { class: "cl-notes" }, ...notes.map((note) => element("li", {}, note)))];
}

// js/app/app.js
var FOLLOW_MS = 120;
function createApp(root, source) {
  const theme = pageTheme();
  root.classList.add("cudalens");
  root.dataset.theme = theme;
  root.dataset.state = "loading";
  const app = {
    root,
    source,
    parts: buildSkeleton(root, source.facts),
    store: createSelectionStore(),
    panels: {},
    tabs: null,
    theme,
    data: null,
    isOpen: true,
    isClosed: () => !app.isOpen,
    following: void 0,
    cleanups: [watchPageTheme((name) => applyTheme2(app, name))]
  };
  const ready = startApp(app).catch((error) => showError(app, error));
  return {
    ready,
    get data() {
      return app.data;
    },
    panels: app.panels,
    get tabs() {
      return app.tabs;
    },
    selection: app.store,
    /** @param {string} text Shown in the place of the timeline until it is there. */
    showStatus(text) {
      app.parts.status.textContent = text;
    },
    setTheme: (name) => applyTheme2(app, name),
    destroy: () => destroyView(app)
  };
}
async function startApp(app) {
  const { source } = app;
  const { hasRaces, hasGraphs, hasProfile, memoryFirst, memoryAlone } = source.facts;
  if (hasRaces) await startPanel(app, "list of races", () => startRaces(app));
  if (hasGraphs) await startPanel(app, "graph tree", () => startGraphs(app));
  if (app.isClosed()) return;
  if (memoryFirst) await startPanel(app, "memory map", () => startMemoryMap(app));
  watchWidth(app);
  if (!hasProfile || memoryAlone) {
    await finishWithoutEvents(app);
    return;
  }
  const data = await decodePayload(await source.payload());
  if (app.isClosed()) return;
  app.data = data;
  await startEvents(app, data);
}
async function startEvents(app, data) {
  const { parts, source, root } = app;
  source.onData?.();
  parts.status.remove();
  app.panels.timeline = createTimeline(parts.timeline, data, {
    theme: app.theme,
    onSelect: (selection) => app.store.set(selection, "timeline"),
    onTime: (view) => followTimeline(app, [...view])
  });
  startMetrics(app, data);
  startFindings(app, data);
  startSyncs(app);
  if (source.facts.memoryMap && !source.facts.memoryFirst) {
    await startPanel(app, "memory map", () => startMemoryMap(app));
  }
  app.store.subscribe((selection, origin) => applySelection(app, data, selection, origin));
  app.tabs = startTabs(app, data);
  parts.table.hidden = false;
  parts.memory.hidden = false;
  await nextPaint();
  root.dataset.state = "painted";
  source.onPaint?.();
  await Promise.all([
    startPanel(app, "table", async () => {
      await startTable(app, data);
      updateTable(app, data, app.store.get(), "start");
    }),
    startPanel(app, "memory curve", () => startMemory(app, data)),
    startPanel(app, "list of details", () => data.detailsReady)
  ]);
  if (app.isOpen && source.hash) followLink(app, data, source.hash);
  if (app.isOpen) root.dataset.state = "ready";
}
async function finishWithoutEvents(app) {
  app.parts.status.remove();
  app.parts.timeline.hidden = true;
  app.source.onData?.();
  await nextPaint();
  app.source.onPaint?.();
  if (app.isOpen && app.root.dataset.state !== "failed") app.root.dataset.state = "ready";
}
function nextPaint() {
  return new Promise((done) => {
    const timer = setTimeout(done, 250);
    requestAnimationFrame(
      () => setTimeout(() => {
        clearTimeout(timer);
        done();
      })
    );
  });
}
async function startPanel(app, name, start) {
  try {
    await start();
  } catch (error) {
    if (app.isOpen) showError(app, error, `The ${name} cannot be shown`);
  }
}
function followTimeline(app, view) {
  app.panels.metrics?.setView(view);
  clearTimeout(app.following);
  app.following = setTimeout(() => app.isOpen && app.panels.memory?.setView(view), FOLLOW_MS);
}
function applySelection(app, data, selection, origin) {
  const { timeline, memory, memoryMap, races } = app.panels;
  const { range, event, names } = selection;
  if (origin !== "timeline") {
    timeline?.setRange(range?.[0] ?? null, range?.[1]);
    timeline?.setNames(names);
    timeline?.select(event);
  }
  if (origin !== "memory") memory?.setRange(range);
  if (range) memoryMap?.showStretch(range, data.header.t0);
  updateTable(app, data, selection, origin);
  app.panels.flame?.update(selection);
  app.parts.details.hidden = event === null;
  renderDetails(app.parts.details, data, event);
  const race = timeline?.raceOf(event) ?? null;
  if (race !== null) races?.choose(race);
  showBar(app.parts.bar, data, app.store, { link: () => linkTo(app, data) });
  app.source.onSelect?.(outward(data, selection));
}
function linkTo({ source, panels, store }, data) {
  if (!source.address || !panels.timeline) return null;
  return source.address(hashOf(data, panels.timeline.getView(), store.get()));
}
function followLink({ panels, store }, data, hash) {
  const { view, selection } = shownOf(data, hash);
  if (Object.keys(selection).length) store.set(selection, "link");
  if (view) panels.timeline?.zoomTo(...view);
}
function updateTable({ panels: { table } }, data, selection, origin) {
  if (origin !== "table") table?.update(selectedMask(data, { ...selection, names: null }));
  table?.choose(selection.names);
}
function outward(data, { range, event, names }) {
  return {
    range: range && [...range],
    event: event === null ? null : data.row[event],
    names: names && [...names].map((id) => data.header.names[id])
  };
}
function watchWidth(app) {
  let width = app.root.clientWidth;
  const observer = new ResizeObserver(() => {
    if (app.root.clientWidth === width) return;
    width = app.root.clientWidth;
    app.panels.memory?.resize();
    app.panels.flame?.resize();
    app.panels.metrics?.resize();
    app.panels.memoryMap?.resize();
  });
  observer.observe(app.root);
  app.cleanups.push(() => observer.disconnect());
}
function applyTheme2(app, theme) {
  app.theme = theme;
  app.root.dataset.theme = theme;
  for (const panel of Object.values(app.panels)) panel.setTheme(theme);
}
function showError({ root, parts, source }, error, what = "The live view cannot be shown") {
  parts.status.remove();
  parts.message.hidden = false;
  parts.message.append(element("p", {}, `${what}: ${error instanceof Error ? error.message : error}`));
  root.dataset.state = "failed";
  source.onFail?.();
  console.error(error);
}
function destroyView(app) {
  app.isOpen = false;
  clearTimeout(app.following);
  for (const panel of Object.values(app.panels)) panel.destroy();
  for (const cleanup of app.cleanups.splice(0)) cleanup();
  app.root.replaceChildren();
}

// js/shared/model.js
function uniqueId() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
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

// js/widget.js
var WAITING_NOTE_MS = 1e3;
var WAITING_NOTE = "This view becomes interactive when the kernel is free.";
function createKernelLink(model) {
  const pending = /* @__PURE__ */ new Map();
  const own = uniqueId();
  let number = 0;
  const receive = (message, buffers) => {
    const waiting = pending.get(message?.id);
    if (!waiting) return;
    pending.delete(message.id);
    if (message.error) waiting.reject(new Error(message.error));
    else waiting.resolve(asBytes(buffers[0]));
  };
  model.on("msg:custom", receive);
  return {
    /**
     * @param {string} want
     * @returns {Promise<Uint8Array<ArrayBuffer>>}
     */
    ask(want) {
      number += 1;
      const id = `${own}-${number}`;
      return new Promise((resolve, reject) => {
        pending.set(id, { resolve, reject });
        model.send({ kind: "request", id, want });
      });
    },
    close() {
      model.off("msg:custom", receive);
      pending.clear();
    }
  };
}
function asBytes(buffer) {
  return buffer instanceof ArrayBuffer ? new Uint8Array(buffer) : new Uint8Array(buffer.buffer, buffer.byteOffset, buffer.byteLength);
}
function render({ model, el }) {
  const picture = model.get("_picture");
  const link = createKernelLink(model);
  const ask = (want) => {
    const ready = model.get("_ready")[want];
    return ready ? Promise.resolve(asBytes(ready)) : link.ask(want);
  };
  const root = element("div", {});
  const note = element("p", { class: "cl-live-note", role: "status", hidden: true }, WAITING_NOTE);
  const errors = element("div", { class: "cudalens cl-callback-errors", role: "alert" });
  el.classList.add("cudalens-live");
  el.replaceChildren(note, root, errors);
  root.hidden = findPictures(picture).length > 0;
  const timer = setTimeout(() => {
    note.hidden = false;
    app.showStatus("");
  }, WAITING_NOTE_MS);
  const app = createApp(root, {
    facts: model.get("_facts"),
    versions: model.get("_versions"),
    payload: () => ask("payload"),
    races: () => ask("races"),
    graphs: () => ask("graphs"),
    memory: () => ask("memory"),
    asset: (name) => link.ask(name),
    onData() {
      clearTimeout(timer);
      note.hidden = true;
      root.hidden = false;
      hidePictures(picture, true);
    },
    onFail() {
      clearTimeout(timer);
      note.hidden = true;
      root.hidden = false;
    },
    onSelect(selection) {
      model.set("_selection", selection);
      model.save_changes();
    }
  });
  const showErrors = () => {
    errors.dataset.theme = root.dataset.theme;
    errors.replaceChildren(...model.get("_errors").map((text) => element("pre", { class: "cl-traceback" }, text)));
  };
  model.on("change:_errors", showErrors);
  showErrors();
  return () => {
    clearTimeout(timer);
    model.off("change:_errors", showErrors);
    link.close();
    app.destroy();
    hidePictures(picture, false);
  };
}
var widget_default = { render };
export {
  widget_default as default
};
