/*! cudalens, BSD-3-Clause. Built from cudalens/views/js by `make js`; do not edit. */

// js/shared/dom.js
function uiElement(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === void 0 || value === false) continue;
    if (key === "onclick") node.addEventListener("click", value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== void 0));
  return node;
}
function uiEscape(text) {
  const codes = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return String(text).replace(/[&<>"']/g, (c) => codes[c]);
}
function uiDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}
function uiDuration(ns) {
  if (ns === null || ns === void 0 || Number.isNaN(ns)) return "-";
  if (ns < 0) return `-${uiDuration(-ns)}`;
  if (ns >= 1195e8) {
    const seconds = Math.round(ns / 1e9);
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }
  for (const [scale, unit] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
    if (ns >= 0.9995 * scale) return `${uiDigits(ns / scale)} ${unit}`;
  }
  return ns >= 0.9995 || ns === 0 ? `${ns.toFixed(0)} ns` : `${Number(ns.toPrecision(2))} ns`;
}
function uiSize(bytes) {
  if (bytes === null || bytes === void 0 || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${uiSize(-bytes)}`;
  for (const [scale, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (bytes >= 0.9995 * scale) return `${uiDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}
function uiPercent(value) {
  if (value === null || value === void 0 || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}
function uiCount(number) {
  return number.toLocaleString("en-US");
}
function uiPlural(number, noun) {
  return `${uiCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}
function uiPageTheme() {
  if (matchMedia("print").matches) return "light";
  const body = document.body.dataset;
  if ("jpThemeLight" in body) return body.jpThemeLight === "false" ? "dark" : "light";
  if ("vscodeThemeKind" in body) return body.vscodeThemeKind.includes("light") ? "light" : "dark";
  const named = document.documentElement.dataset.theme;
  if (named === "dark" || named === "light") return named;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
function uiWatchTheme(onChange) {
  let current = uiPageTheme();
  const check = () => {
    const theme = uiPageTheme();
    if (theme !== current) onChange(current = theme);
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

// js/app/details.js
function eventFacts(data, i) {
  const lane = data.header.lanes[data.lane[i]];
  const facts = [
    ["Kind", data.header.cats[data.cat[i]]],
    ["Start", uiDuration(data.start[i])],
    ["Duration", uiDuration(data.dur[i])]
  ];
  if (lane.kind === "host" && data.self[i] !== data.dur[i]) facts.push(["Self time", uiDuration(data.self[i])]);
  facts.push([lane.kind === "device" ? "Stream" : "Thread", lane.label]);
  if (data.launch[i] >= 0) facts.push(...launchFacts(data, i));
  for (const [term, text] of detailFacts(data, i)) facts.push([term, text]);
  facts.push(["Row", `trace.events.iloc[${data.row[i]}]`]);
  return facts;
}
function launchFacts(data, i) {
  const by = data.launch[i];
  return [
    ["Launched by", data.header.names[data.name[by]]],
    ["Waited", uiDuration(data.start[i] - data.start[by])]
  ];
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
  for (const [key, value] of Object.entries(data.detail?.(i) ?? {})) {
    if (value === null || value === void 0 || value === "") continue;
    facts.push([DETAIL_TERMS[key] ?? key, detailText(key, value)]);
  }
  return facts;
}
function detailText(key, value) {
  if (key.endsWith("_bytes")) return uiSize(Number(value));
  if (key === "occupancy_pct") return `${value} %`;
  return typeof value === "number" ? uiCount(value) : String(value);
}
function renderDetails(host, data, event) {
  if (event === null) {
    host.replaceChildren();
    return;
  }
  const list = uiElement("dl", { class: "cl-facts" });
  for (const [term, text] of eventFacts(data, event)) {
    list.append(uiElement("dt", {}, term), uiElement("dd", {}, text));
  }
  host.replaceChildren(uiElement("h3", { class: "cl-event" }, data.header.names[data.name[event]]), list);
}

// js/shared/markup.js
var MARKUP_SVG = "http://www.w3.org/2000/svg";
var MARKUP_TAGS = /* @__PURE__ */ new Set([
  "article",
  "b",
  "code",
  "dd",
  "details",
  "div",
  "dl",
  "dt",
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
var MARKUP_SHAPES = /* @__PURE__ */ new Set(["svg", "title", "rect", "path", "text"]);
var MARKUP_ATTRIBUTES = /* @__PURE__ */ new Set([
  "class",
  "colspan",
  "scope",
  "role",
  "tabindex",
  "open",
  "title",
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
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor"
]);
function buildMarkup(tree) {
  if (typeof tree === "string") return document.createTextNode(tree);
  const [tag, attributes, ...children] = tree;
  const isShape = MARKUP_SHAPES.has(tag);
  if (!isShape && !MARKUP_TAGS.has(tag)) throw new Error(`cudalens markup: the element ${tag} is not known here`);
  const node = isShape ? document.createElementNS(MARKUP_SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (MARKUP_ATTRIBUTES.has(name)) node.setAttribute(name, value);
  node.append(...children.map(buildMarkup));
  return node;
}

// js/graphs/graphs.js
function createGraphs(host, model) {
  const state = { model, host, traced: null, paths: [] };
  host.replaceChildren(...model.body.map(buildMarkup));
  const tree = host.querySelector(".cg-scroll");
  if (tree) {
    if (tree.querySelectorAll(".cg-stop, .cg-fold").length > 1) tree.before(graphTools(state, tree));
    tree.addEventListener("keydown", (event) => moveInGraph(event, tree));
  }
  startGraphPaths(state);
  return {
    trace: (k) => tracePath(state, k),
    setTheme() {
    },
    destroy: () => host.replaceChildren()
  };
}
function graphTools(state, tree) {
  const openFolds = (isOpen) => {
    for (const fold of tree.querySelectorAll("details.cg-fold")) fold.open = isOpen;
  };
  const openRows = (isOpen) => {
    for (const row of tree.querySelectorAll("details.cg-row")) row.open = isOpen;
  };
  const button = (text, onclick) => uiElement("button", { type: "button", class: "cl-button", onclick }, text);
  const tools = uiElement("div", { class: "cg-tools", role: "group", "aria-label": "Graph tree" });
  if (tree.querySelector("details.cg-fold")) tools.append(button("Unfold all", () => openFolds(true)));
  tools.append(button("Open all", () => openRows(true)), button("Close all", () => {
    openRows(false);
    openFolds(false);
  }));
  if (tree.querySelector(".cg-stop.is-current")) tools.append(button("Go to current", () => goToCurrent(tree)));
  return tools;
}
function goToCurrent(tree) {
  const row = tree.querySelector(".cg-stop.is-current > .cg-row > summary");
  revealInGraph(row);
  row.focus({ preventScroll: true });
  scrollGraphTo(tree, row);
}
function revealInGraph(node) {
  for (let fold = node.closest("details.cg-fold"); fold; fold = fold.parentElement.closest("details.cg-fold")) fold.open = true;
}
function scrollGraphTo(tree, node) {
  const top = node.getBoundingClientRect().top - tree.getBoundingClientRect().top;
  if (top < 0 || top + node.offsetHeight > tree.clientHeight) tree.scrollTop += top - tree.clientHeight / 3;
}
function moveInGraph(event, tree) {
  const at = event.target;
  if (at.tagName !== "SUMMARY" || event.ctrlKey || event.metaKey || event.altKey) return;
  const rows = [...tree.querySelectorAll("summary")].filter((row) => row.getClientRects().length);
  const k = rows.indexOf(at);
  const steps = { ArrowDown: k + 1, ArrowUp: k - 1, Home: 0, End: rows.length - 1 };
  if (event.key in steps) {
    const next = rows[Math.min(Math.max(steps[event.key], 0), rows.length - 1)];
    next.focus({ preventScroll: true });
    scrollGraphTo(tree, next);
  } else if (event.key === "ArrowRight" || event.key === "ArrowLeft") at.parentElement.open = event.key === "ArrowRight";
  else return;
  event.preventDefault();
  event.stopPropagation();
}
function startGraphPaths(state) {
  const items = [...state.host.querySelectorAll(".cg-paths > li")].slice(0, state.model.paths.length);
  state.paths = items.map((item, k) => {
    const press = () => tracePath(state, state.traced === k ? null : k);
    const attributes = { type: "button", "aria-pressed": "false", title: "Show this path in the tree", onclick: press };
    const button = uiElement("button", attributes, ...item.childNodes);
    item.replaceChildren(button);
    return button;
  });
}
function tracePath(state, k) {
  state.traced = k;
  for (const [j, button] of state.paths.entries()) button.setAttribute("aria-pressed", String(j === k));
  for (const stop of state.host.querySelectorAll(".is-traced")) stop.classList.remove("is-traced");
  const stops = (state.model.paths[k] ?? []).map((node) => state.host.querySelector(`.cg-n${Number(node)}`)).filter(Boolean);
  for (const stop of stops) {
    stop.classList.add("is-traced");
    revealInGraph(stop);
  }
  if (stops.length) scrollGraphTo(state.host.querySelector(".cg-scroll"), stops[0]);
}

// js/memory/plot.js
var MAX_POINTS = 4e3;
var MEMORY_PALETTE = {
  light: { lines: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b"], text: "#57606a", grid: "#d9dee4", fill: 0.14 },
  dark: { lines: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0"], text: "#9aa5b1", grid: "#30363d", fill: 0.2 }
};
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
function plotGutter(width) {
  return Math.max(56, Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) - 1);
}
function peakOf(series) {
  let at = 0;
  for (let i = 1; i < series.values.length; i++) if (series.values[i] > series.values[at]) at = i;
  return { ts: series.ts[at], value: series.values[at] };
}
function scaleOf(largest, steps) {
  return steps.find(([scale]) => largest >= scale) ?? steps.at(-1);
}
var BYTE_STEPS = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
var TIME_STEPS = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
function curveWithin({ ts, values }, [t0, t1]) {
  let [from, to] = [0, ts.length];
  while (from + 1 < ts.length && ts[from + 1] < t0) from += 1;
  while (to - 2 > from && ts[to - 2] > t1) to -= 1;
  return thinCurve(ts.subarray(from, to), values.subarray(from, to));
}
function createMemory(host, series, { Plotly, theme, view, onRange }) {
  const [timeScale, timeUnit] = scaleOf(view[1] - view[0], TIME_STEPS);
  const peaks = series.map(peakOf);
  const [byteScale, byteUnit] = scaleOf(Math.max(...peaks.map((peak) => peak.value), 1), BYTE_STEPS);
  const root = uiElement("div", { class: "cl-plot" });
  host.replaceChildren(root);
  const shown = { theme, range: null, view, width: 0 };
  const traces = () => series.map((one, k) => {
    const curve = curveWithin(one, shown.view);
    const color = MEMORY_PALETTE[shown.theme].lines[k % 4];
    return {
      type: "scatter",
      mode: "lines",
      name: one.label,
      x: curve.ts.map((t) => t / timeScale),
      y: curve.values.map((v) => v / byteScale),
      line: { shape: "hv", width: 1.5, color },
      fill: series.length === 1 ? "tozeroy" : "none",
      fillcolor: withAlpha(color, MEMORY_PALETTE[shown.theme].fill),
      text: curve.values.map((v, i) => `${uiSize(v)} at ${uiDuration(curve.ts[i])}`),
      hoverinfo: "text+name"
    };
  });
  const layout = () => {
    shown.width = root.clientWidth || shown.width;
    const { text, grid, lines } = MEMORY_PALETTE[shown.theme];
    const axis = { gridcolor: grid, zerolinecolor: grid, linecolor: grid, tickcolor: grid, fixedrange: true };
    return {
      height: 200,
      margin: { l: plotGutter(shown.width), r: 1, t: 22, b: 34 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: text, size: 11, family: "inherit" },
      dragmode: "select",
      selectdirection: "h",
      showlegend: series.length > 1,
      legend: { orientation: "h", x: 0, y: 1.18 },
      hovermode: "closest",
      newselection: { line: { color: text, width: 1 } },
      xaxis: { ...axis, range: shown.view.map((t) => t / timeScale), ticksuffix: ` ${timeUnit}`, separatethousands: true },
      yaxis: { ...axis, rangemode: "tozero", ticksuffix: ` ${byteUnit}`, separatethousands: true },
      shapes: shown.range === null ? [] : [rangeShape(shown.range, lines[0], timeScale)],
      annotations: peaks.map((peak, k) => ({
        x: peak.ts / timeScale,
        y: peak.value / byteScale,
        text: `peak ${uiSize(peak.value)}`,
        showarrow: true,
        arrowhead: 0,
        arrowwidth: 1,
        ax: peak.ts > (shown.view[0] + shown.view[1]) / 2 ? -44 : 44,
        ay: -10,
        bgcolor: "rgba(0,0,0,0)",
        font: { color: lines[k % 4], size: 11 },
        arrowcolor: lines[k % 4]
      }))
    };
  };
  const config = { displayModeBar: false, responsive: false, doubleClick: false, showTips: false };
  const ready = Plotly.newPlot(root, traces(), layout(), config).then(() => {
    root.on("plotly_selected", (event) => {
      if (!event?.range) return;
      const [a, b] = event.range.x.map((t) => t * timeScale);
      onRange(a === b ? null : [Math.min(a, b), Math.max(a, b)]);
    });
    root.on("plotly_deselect", () => onRange(null));
    root.on("plotly_doubleclick", () => onRange(null));
  });
  const redraw = () => ready.then(() => root.isConnected && Plotly.react(root, traces(), layout(), config));
  return {
    ready,
    setRange(range) {
      shown.range = range;
      return redraw();
    },
    setView(next) {
      shown.view = next;
      return redraw();
    },
    setTheme(name) {
      shown.theme = name;
      return redraw();
    },
    // A width in the layout would be kept; the size is taken anew from the page.
    resize: () => redraw().then(() => root.isConnected && root.clientWidth && Plotly.Plots.resize(root)),
    destroy: () => ready.then(() => Plotly.purge(root))
  };
}
function withAlpha(hex, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}
function rangeShape([t0, t1], color, timeScale) {
  return {
    type: "rect",
    xref: "x",
    yref: "paper",
    x0: t0 / timeScale,
    x1: t1 / timeScale,
    y0: 0,
    y1: 1,
    fillcolor: color,
    opacity: 0.18,
    line: { width: 1, color },
    layer: "below"
  };
}

// js/payload/payload.js
var PAYLOAD_VERSION = 1;
var PAYLOAD_FLAGS = { instant: 1, folded: 2, outside: 4, launched: 8 };
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
  const read = (from, size) => {
    if (from + size > bytes.byteLength) throw payloadError(`it ends at byte ${bytes.byteLength}, ${from + size} expected`);
    const blob = bytes.subarray(from, from + size);
    return isDeflated ? inflateBytes(blob) : blob;
  };
  const headSize = view.getUint32(8, true);
  const header = JSON.parse(new TextDecoder().decode(await read(12, headSize)));
  if (header.version !== PAYLOAD_VERSION) throw payloadError(`found version ${header.version}, expected ${PAYLOAD_VERSION}`);
  let at = 12 + headSize;
  const places = /* @__PURE__ */ new Map();
  for (const [name, column] of Object.entries(header.columns)) {
    const sizes = "text" in column ? [column.text] : column.planes;
    places.set(name, sizes.map((size) => size < 0 ? size : [(at += size) - size, size]));
  }
  return { header, places, read };
}
async function readInts(payload, name) {
  const { n, signed } = payload.header.columns[name];
  const planes = await Promise.all(payload.places.get(name).map((p) => p < 0 ? -1 - p : payload.read(...p)));
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
  const byteOf = (k, i) => k >= planes.length ? 0 : typeof planes[k] === "number" ? planes[k] : planes[k][i];
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
  const { n, signed } = payload.header.columns[name];
  const planes = await Promise.all(payload.places.get(name).map((p) => p < 0 ? -1 - p : payload.read(...p)));
  const out = new BigUint64Array(n);
  const bytes = new Uint8Array(out.buffer);
  planes.forEach((plane, k) => {
    for (let i = 0; i < n; i++) bytes[8 * i + k] = typeof plane === "number" ? plane : plane[i];
  });
  if (signed) for (let i = 0; i < n; i++) out[i] = out[i] >> 1n ^ BigInt.asUintN(64, -(out[i] & 1n));
  return out;
}
async function readTexts(payload, name) {
  const [place] = payload.places.get(name);
  return JSON.parse(new TextDecoder().decode(await payload.read(...place)));
}
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
function deriveRows(data, at, off) {
  const { start, dur, header, n } = data;
  let runs = [];
  let from = 0;
  for (const lane of header.lanes) if (lane.count) runs.push([from, from += lane.count]);
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
    if (flags[i] & PAYLOAD_FLAGS.launched) launch[i] = calls[ordinal += steps[k++] + 1];
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
      const value = before[device[i]] += column[i];
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
async function readMetrics(payload) {
  const { devices = [], gauges = [], reasons = [] } = payload.header.metrics ?? {};
  return Promise.all(devices.map(async (label, k) => {
    const [steps, slowed, ...columns] = await Promise.all(
      ["ts", "slowed_by", ...gauges.map(({ column }) => column)].map((name) => readInts(payload, `met.${k}.${name}`))
    );
    const ts = Float64Array.from(steps);
    for (let i = 1; i < ts.length; i++) ts[i] += ts[i - 1];
    const decoded = columns.map((column, g) => Float64Array.from(column, (v) => v === 0 ? NaN : (v - 1) / gauges[g].scale));
    return { label, ts, slowed, reasons, values: Object.fromEntries(gauges.map(({ column }, g) => [column, decoded[g]])) };
  }));
}
async function readDetails(payload, columns) {
  for (const { name, coding } of payload.header.details) {
    if (coding === "dictionary") {
      const [codes, values] = await Promise.all([readInts(payload, `${name}.codes`), readTexts(payload, `${name}.values`)]);
      columns.set(name, { codes, values, at: (i) => codes[i] ? values[codes[i] - 1] : null });
    } else {
      const [known, steps] = await Promise.all([readInts(payload, `${name}.known`), readBigInts(payload, `${name}.steps`)]);
      for (let k = 1; k < steps.length; k++) steps[k] += steps[k - 1];
      const ordinal = new Uint32Array(known.length);
      for (let i = 0, k = 0; i < known.length; i++) ordinal[i] = known[i] ? ++k : 0;
      columns.set(name, { at: (i) => ordinal[i] ? String(BigInt.asIntN(64, steps[ordinal[i] - 1])) : null });
    }
  }
}
async function decodePayload(bytes) {
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
  for (let l = 0, i = 0; l < header.lanes.length; l++) data.lane.fill(l, i, i += header.lanes[l].count);
  const { own, parent, depth } = deriveTree(data);
  for (let k = 0, at = 0; k < selfAt.length; k++) own[at += selfAt[k]] += selfOff[k];
  data.self = own;
  data.parent = parent;
  data.depth = depth;
  data.launch = unfoldLaunches(n, data.flags, kind, launchers, launch);
  let row = null;
  Object.defineProperty(data, "row", { enumerable: true, get: () => row ??= deriveRows(data, rowAt, rowOff) });
  data.memory = await readMemory(payload);
  data.metrics = await readMetrics(payload);
  const details = /* @__PURE__ */ new Map();
  data.detail = (i) => Object.fromEntries([...details].map(([name, column]) => [name, column.at(i)]));
  data.detailsReady = new Promise((resolve) => setTimeout(resolve, 0)).then(() => readDetails(payload, details));
  data.detailsReady.catch(() => {
  });
  return data;
}

// js/memory/data.js
var MM_NEVER = 2147483647;
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
  lives.byAddress = mmSortedByPlace(raw.addr, addresses.length);
  return lives;
}
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
  const removed = Int32Array.from(raw.removed, (row) => row ? row - 2 : MM_NEVER);
  return { n: addr.length, addr, bytes, added, removed, device: raw.device, pool: raw.pool, kind: raw.kind, grows: raw.grows };
}
function mmStacks(frame, stack, files, functions) {
  const starts = new Uint32Array(stack.sizes.length + 1);
  stack.sizes.forEach((size, k) => starts[k + 1] = starts[k] + size);
  const frameAt = (id) => ({ file: files[frame.file[id]], line: frame.line[id] - 1, name: functions[frame.function[id]] });
  return {
    n: stack.sizes.length,
    numFrames: frame.line.length,
    frameAt,
    // Ids of the frames of stack k, innermost first.
    idsOf: (k) => stack.frames.subarray(starts[k], starts[k + 1])
  };
}
function mmFrameText({ file, line, name }) {
  const place = file ? `${file.split(/[\\/]/).at(-1)}${line >= 0 ? `:${line}` : ""}` : "";
  return [name || "?", place].filter(Boolean).join(" ");
}
async function decodeMemory(bytes) {
  const payload = await openPayload(bytes);
  const { header } = payload;
  const [life, piece, frame, stack, rest, steps, clock, told, files, functions] = await Promise.all([
    mmColumns(payload, "life", [
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
      "told"
    ]),
    mmColumns(payload, "piece", ["addr", "device", "pool", "units", "added", "removed", "kind", "grows"]),
    mmColumns(payload, "frame", ["file", "line", "function"]),
    mmColumns(payload, "stack", ["sizes", "frames"]),
    mmColumns(payload, "rest", ["allocated", "active"]),
    readInts(payload, "addr.steps"),
    readInts(payload, "clock.steps"),
    readTexts(payload, "told"),
    readTexts(payload, "files"),
    readTexts(payload, "functions")
  ]);
  const times = header.has_times ? new Float64Array(header.num_rows) : null;
  if (times) for (let i = 1; i < times.length; i++) times[i] = times[i - 1] + clock[i - 1] * header.time_unit;
  return {
    header,
    numRows: header.num_rows,
    lives: mmLives(life, mmRunning(steps), header),
    pieces: mmPieces(piece, header),
    stacks: mmStacks(frame, stack, files, functions),
    told: told.map((text) => text ? JSON.parse(text) : {}),
    clock: times,
    rest
  };
}
function mmCurves(data, device) {
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
function mmPeakRow(curve) {
  let best = 0;
  for (let i = 1; i < curve.length; i++) if (curve[i] > curve[best]) best = i;
  return best - 1;
}

// js/memory/moment.js
function mmStripsAt(pieces, device, row) {
  const strips = [];
  for (let i = 0; i < pieces.n; i++) {
    if (pieces.device[i] !== device || pieces.added[i] > row || pieces.removed[i] <= row) continue;
    const [addr, bytes, pool, kind] = [pieces.addr[i], pieces.bytes[i], pieces.pool[i], pieces.kind[i]];
    const last = strips.at(-1);
    if (last && pieces.grows[i] && last.grows && last.pool === pool && last.addr + last.bytes === addr) last.bytes += bytes;
    else strips.push({ addr, bytes, pool, kind, grows: pieces.grows[i] });
  }
  return strips;
}
function mmAliveAt(lives, device, row) {
  const found = new Int32Array(lives.n);
  let n = 0;
  for (let k = 0; k < lives.n; k++) {
    const i = lives.byAddress[k];
    if (lives.alloc[i] <= row && row < lives.done[i] && lives.device[i] === device) found[n++] = i;
  }
  return found.slice(0, n);
}
function mmMoment(data, device, row) {
  const { lives } = data;
  const alive = mmAliveAt(lives, device, row);
  const strips = mmStripsAt(data.pieces, device, row);
  const sums = { reserved: 0, active: 0, allocated: 0, pending: 0, internal: 0, external: 0, empty: 0, largest: 0 };
  let k = 0;
  let placed = 0;
  for (const strip of strips) {
    while (k < alive.length && lives.addr[alive[k]] < strip.addr) k++;
    strip.first = k;
    strip.used = 0;
    let at = strip.addr;
    let largest = 0;
    for (; k < alive.length && lives.addr[alive[k]] < strip.addr + strip.bytes; k++) {
      const i = alive[k];
      largest = Math.max(largest, lives.addr[i] - at);
      at = lives.addr[i] + lives.bytes[i];
      strip.used += lives.bytes[i];
    }
    largest = Math.max(largest, strip.addr + strip.bytes - at);
    strip.end = k;
    placed += strip.end - strip.first;
    sums.reserved += strip.bytes;
    sums.largest = Math.max(sums.largest, largest);
    const free = Math.max(strip.bytes - strip.used, 0);
    sums[strip.used ? "external" : "empty"] += free;
  }
  for (const i of alive) {
    sums.active += lives.bytes[i];
    if (lives.released[i] <= row) sums.pending += lives.bytes[i];
    else sums.allocated += lives.bytes[i];
    if (!Number.isNaN(lives.requested[i])) sums.internal += lives.bytes[i] - lives.requested[i];
  }
  const told = data.header.devices[device];
  if (row === data.numRows - 1) {
    Object.assign(sums, told.end ?? {}, { allocated: told.allocated_bytes, active: told.active_bytes, reserved: told.reserved_bytes });
    sums.pending = sums.active - sums.allocated;
  }
  return { device, row, lives: alive, strips, sums, outside: alive.length - placed };
}
function mmPoolText({ stream, pool, graphs }) {
  const [first, second] = pool;
  const isDefault = !first && !second;
  const which = isDefault ? "default pool" : `private pool (${first ?? "?"}, ${second ?? "?"})`;
  const of = graphs.length ? ` of ${graphs.join(", ")}` : "";
  return `${which}${of}, stream ${stream ?? "not recorded"}`;
}
function mmStackLabel(data, stack) {
  if (stack < 0) return "stack not recorded";
  const ids = [...data.stacks.idsOf(stack)];
  const frames = ids.map((id) => data.stacks.frameAt(id));
  const isOwn = ({ file, name }) => (file.endsWith(".py") || file.startsWith("In[") || file.startsWith("<")) && !/[\\/](torch|site-packages|dist-packages)[\\/]/.test(file) && name !== "";
  const chosen = frames.find(isOwn) ?? frames.find(({ file }) => file.endsWith(".py")) ?? frames[0];
  return chosen ? mmFrameText(chosen) : "stack not recorded";
}
function mmGroupings(data) {
  const isTold = (name) => data.told.some((facts) => name in facts);
  return Object.entries({ category: "category", stack: "call stack", pool: "pool and stream", names: "variable", cell: "cell" }).filter(([key]) => !["names", "cell"].includes(key) || isTold(key));
}
var mmTold = (data, life) => data.lives.told[life] ? data.told[data.lives.told[life] - 1] : {};
function mmNames(data, life) {
  const { names } = mmTold(data, life);
  if (!names) return [];
  try {
    return JSON.parse(names).map(String);
  } catch {
    return [names];
  }
}
function mmKeyOf(data, life, by) {
  if (by === "names") return mmNames(data, life)[0] ?? "";
  if (by === "cell") return mmTold(data, life).cell ?? "";
  return data.lives[by][life];
}
function mmGrouped(data, chosen, by) {
  const { lives, header } = data;
  const found = /* @__PURE__ */ new Map();
  for (const i of chosen) {
    const key = mmKeyOf(data, i, by);
    const sum = found.get(key) ?? { key, bytes: 0, num: 0 };
    sum.bytes += lives.bytes[i];
    sum.num += 1;
    found.set(key, sum);
  }
  const labels = {
    category: (key) => key ? header.categories[key - 1] : "unknown",
    stack: (key) => mmStackLabel(data, key),
    pool: (key) => mmPoolText(header.pools[key]),
    names: (key) => key || "no variable that is known",
    cell: (key) => key || "not recorded"
  };
  return [...found.values()].map((sum) => ({ ...sum, label: labels[by](sum.key) })).sort((a, b) => b.bytes - a.bytes);
}

// js/memory/colors.js
var MM_HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a400", "#7a5cc4", "#8c6d46", "#3fb8a0", "#c2476b"];
var MM_UNKNOWN = { light: "#9aa4af", dark: "#6f7b87" };
var MM_AGES = {
  light: ["#fde08a", "#f5ae4d", "#e0733f", "#b3404f", "#7b2764", "#421a5c"],
  dark: ["#fff1b8", "#fbc15e", "#f08a4b", "#d2555f", "#a04a8f", "#6d4fb0"]
};
var MM_GROUND = {
  light: { gap: [238, 241, 245], hatch: [188, 197, 207], dim: [214, 220, 227] },
  dark: { gap: [33, 39, 46], hatch: [73, 84, 96], dim: [52, 60, 69] }
};
var MM_COLORS = { category: "Category", stream: "Stream", age: "Age", stack: "Call stack" };
var mmRgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
var mmPacked = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
function mmColoring(data, moment, mode, theme) {
  const made = { category: mmByCategory, stream: mmByStream, age: mmByAge, stack: mmByStack }[mode](data, moment, theme);
  const rgb = made.css.map(mmRgb);
  return { ...made, rgb, pixels: Uint32Array.from(rgb, mmPacked), edges: Uint32Array.from(rgb, (c) => mmPacked(mmShade(c, theme))) };
}
function mmShade(rgb, theme) {
  const toward = theme === "dark" ? 0 : 255;
  return rgb.map((v) => Math.round(v + (toward - v) * 0.45));
}
function mmByCategory(data, moment, theme) {
  const { categories } = data.header;
  const css = [MM_UNKNOWN[theme], ...categories.map((_, k) => MM_HUES[k % MM_HUES.length])];
  const present = mmGrouped(data, moment.lives, "category");
  return { css, of: (life) => data.lives.category[life], legend: present.map(({ key, label }) => ({ css: css[key], label })) };
}
function mmByStream(data, moment, theme) {
  const { pools } = data.header;
  const streams = [...new Set(pools.map(({ stream }) => stream))].sort((a, b) => (a ?? Infinity) - (b ?? Infinity));
  const css = [MM_UNKNOWN[theme], ...streams.map((_, k) => MM_HUES[k % MM_HUES.length])];
  const index = pools.map(({ stream }) => stream === null ? 0 : 1 + streams.indexOf(stream));
  const present = [...new Set([...moment.strips].map(({ pool }) => index[pool]))].sort((a, b) => a - b);
  const label = (k) => k ? `stream ${streams[k - 1]}` : "stream not recorded";
  return { css, of: (life) => index[data.lives.pool[life]], legend: present.map((k) => ({ css: css[k], label: label(k) })) };
}
function mmByAge(data, moment, theme) {
  const ramp = MM_AGES[theme];
  const css = [MM_UNKNOWN[theme], ...ramp];
  const { lives, clock } = data;
  const ageOf = (life) => clock ? clock[Math.max(moment.row, 0)] - clock[lives.alloc[life]] : moment.row - lives.alloc[life];
  let oldest = 1;
  for (const life of moment.lives) if (lives.alloc[life] >= 0) oldest = Math.max(oldest, ageOf(life));
  const ratio = 4;
  const of = (life) => {
    if (lives.alloc[life] < 0) return 0;
    const steps = Math.floor(Math.log(oldest / Math.max(ageOf(life), oldest * 1e-9)) / Math.log(ratio));
    return ramp.length - Math.min(Math.max(steps, 0), ramp.length - 1);
  };
  const text = (value) => clock ? uiDuration(value) : `${Math.round(value).toLocaleString("en-US")} actions`;
  const bound = (k) => oldest / ratio ** (ramp.length - 1 - k);
  const legend = ramp.map((color, k) => ({ css: color, label: `up to ${text(bound(k))}` }));
  const before = moment.lives.some((life) => lives.alloc[life] < 0);
  return { css, of, legend: [...legend, ...before ? [{ css: css[0], label: "from before the history" }] : []] };
}
function mmByStack(data, moment, theme) {
  const sums = mmGrouped(data, moment.lives, "stack");
  const top = sums.filter(({ key }) => key >= 0).slice(0, MM_HUES.length);
  const css = [MM_UNKNOWN[theme], ...MM_HUES];
  const index = new Map(top.map(({ key }, k) => [key, k + 1]));
  const legend = top.map(({ label }, k) => ({ css: MM_HUES[k], label }));
  const isMore = sums.length > top.length;
  return {
    css,
    of: (life) => index.get(data.lives.stack[life]) ?? 0,
    legend: [...legend, ...isMore ? [{ css: css[0], label: "all others" }] : []]
  };
}

// js/memory/controls.js
function mmChoice(label, entries, current, onChange) {
  const buttons = entries.map(([key, text]) => uiElement("button", {
    type: "button",
    class: "cl-button",
    "data-key": key,
    "aria-pressed": String(key === current),
    onclick: () => press(key)
  }, text));
  const mark = (key) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.key === key));
  };
  const press = (key) => {
    mark(key);
    onChange(key);
  };
  const group = uiElement("div", { class: "mm-choice", role: "group", "aria-label": label }, uiElement("span", { class: "mm-muted" }, label), ...buttons);
  return Object.assign(group, { mark });
}
var mmButton = (text, title, onclick) => uiElement("button", { type: "button", class: "cl-button", title, "aria-label": title, onclick }, text);
function mmSeriesLegend() {
  return uiElement("p", { class: "mm-legend" }, ...["allocated", "active", "reserved"].map((name) => uiElement("span", { class: "mm-key" }, uiElement("i", { class: `mm-line-${name}` }), name)));
}

// js/memory/curve_draw.js
var MM_CURVE_HEIGHT = 170;
var MM_AXIS = 20;
var MM_TOP = 18;
var MM_LINES = {
  light: { allocated: "#0b62c4", active: "#b35c00", reserved: "#6b7683", grid: "#e3e8ed", mark: "#b3261e", cursor: "#1b1f24", range: "rgba(11,98,196,.14)" },
  dark: { allocated: "#6cb6ff", active: "#f0a050", reserved: "#9aa5b1", grid: "#2a3138", mark: "#ff8a80", cursor: "#e6e9ed", range: "rgba(108,182,255,.2)" }
};
var MM_SERIES = ["reserved", "active", "allocated"];
var mmPlace = (curve, row) => curve.isTime ? row < 0 ? 0 : curve.data.clock[row] : row + 1;
function mmRowAt(curve, place) {
  const { numRows } = curve.data;
  return curve.isTime ? mmRowAtTime(curve.data, place) : Math.min(Math.max(Math.floor(place) - 1, -1), numRows - 1);
}
function mmRowAtTime({ clock, numRows }, place) {
  let [low, high] = [0, numRows];
  while (low < high) {
    const middle = low + high >> 1;
    if (clock[middle] <= place) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function mmWhole(curve) {
  const { clock, numRows } = curve.data;
  const end = curve.isTime ? clock[numRows - 1] ?? 0 : numRows;
  return [0, Math.max(end * 1.005, 1)];
}
var mmX = (curve, row) => (mmPlace(curve, row) - curve.view[0]) / (curve.view[1] - curve.view[0]) * curve.width;
function mmEnvelope(curve, values) {
  const columns = Math.ceil(curve.width);
  const [from, to] = curve.view;
  const out = { low: new Float64Array(columns), high: new Float64Array(columns) };
  let row = mmRowAt(curve, from);
  for (let x = 0; x < columns; x++) {
    const end = mmRowAt(curve, from + (x + 1) * (to - from) / columns);
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
function mmPaintCurves(curve) {
  const { curves, width, ratio, theme } = curve;
  const context = curve.canvas.getContext("2d");
  const colors = MM_LINES[theme];
  const style = getComputedStyle(curve.canvas);
  curve.envelopes = Object.fromEntries(MM_SERIES.map((name) => [name, mmEnvelope(curve, curves[name])]));
  let most = 1;
  for (const { high } of Object.values(curve.envelopes)) for (const value of high) if (value > most) most = value;
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  curve.y = (value) => bottom - Math.max(value, 0) / (most * 1.04) * (bottom - MM_TOP);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, MM_CURVE_HEIGHT);
  context.font = `11px ${style.fontFamily}`;
  mmPaintAxis(curve, context, style.color, colors, most);
  for (const name of MM_SERIES) mmPaintSeries(curve, context, curve.envelopes[name], colors[name], name === "allocated");
  mmPaintMarks(curve, context, colors, style.color);
}
function mmPaintSeries(curve, context, { low, high }, color, isFilled) {
  const n = high.length;
  context.strokeStyle = context.fillStyle = color;
  context.beginPath();
  context.moveTo(0, curve.y(low[0]));
  for (let x = 0; x < n; x++) {
    context.lineTo(x + 0.5, curve.y(high[x]));
    if (high[x] !== low[x]) context.lineTo(x + 0.5, curve.y(low[x]));
  }
  context.lineWidth = isFilled ? 1.5 : 1.25;
  context.stroke();
  if (!isFilled) return;
  context.lineTo(n, curve.y(0));
  context.lineTo(0, curve.y(0));
  context.globalAlpha = 0.14;
  context.fill();
  context.globalAlpha = 1;
}
function mmStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= rough * 0.999);
}
function mmPaintAxis(curve, context, ink, colors, most) {
  const { width, view } = curve;
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  context.lineWidth = 1;
  context.strokeStyle = colors.grid;
  context.fillStyle = ink;
  context.globalAlpha = 1;
  const lines = 2 ** Math.floor(Math.log2(most / 2.5));
  context.textBaseline = "bottom";
  for (let value = lines; value <= most * 1.02; value += lines) {
    const y = Math.round(curve.y(value)) + 0.5;
    context.beginPath();
    context.moveTo(0, y);
    context.lineTo(width, y);
    context.stroke();
    context.fillText(uiSize(value), 2, y - 1);
  }
  const step = Math.max(mmStep((view[1] - view[0]) / Math.max(width / 130, 2)), curve.isTime ? 1 : 1);
  context.textBaseline = "top";
  for (let place = Math.ceil(view[0] / step) * step; place <= view[1]; place += step) {
    const x = (place - view[0]) / (view[1] - view[0]) * width;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, bottom);
    context.lineTo(Math.round(x) + 0.5, bottom + 4);
    context.stroke();
    const text = curve.isTime ? place ? uiDuration(place) : "0" : Math.round(place).toLocaleString("en-US");
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(x - half, 0), width - 2 * half), bottom + 6);
  }
}
function mmPaintMarks(curve, context, colors, ink) {
  const { peak, width } = curve;
  const { view } = curve;
  const isIn = (row) => mmPlace(curve, row) >= view[0] && mmPlace(curve, row) <= view[1];
  for (const mark of curve.marks) {
    if (!isIn(mark.row)) continue;
    const x2 = mmX(curve, mark.row);
    const isFailed = mark.kind === "oom";
    context.strokeStyle = context.fillStyle = isFailed ? colors.mark : ink;
    context.setLineDash(isFailed ? [] : [3, 3]);
    context.beginPath();
    context.moveTo(x2, MM_TOP - 2);
    context.lineTo(x2, MM_CURVE_HEIGHT - MM_AXIS);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(x2 - 5, MM_TOP - 10);
    context.lineTo(x2 + 5, MM_TOP - 10);
    context.lineTo(x2, MM_TOP - 2);
    context.fill();
  }
  if (!isIn(peak.row)) return;
  const [x, y] = [Math.max(mmX(curve, peak.row), 3), curve.y(peak.bytes)];
  context.fillStyle = colors.allocated;
  context.beginPath();
  context.arc(x, y, 4, 0, 7);
  context.fill();
  const text = `peak ${uiSize(peak.bytes)}`;
  context.font = context.font.replace(/^/, "600 ");
  const room = context.measureText(text).width + 8;
  context.textBaseline = "bottom";
  context.fillText(text, x + room > width ? x - room : x + 7, Math.max(y - 3, 12));
}
function mmPaintCursor(curve) {
  const context = curve.over.getContext("2d");
  const colors = MM_LINES[curve.theme];
  const bottom = MM_CURVE_HEIGHT - MM_AXIS;
  context.setTransform(curve.ratio, 0, 0, curve.ratio, 0, 0);
  context.clearRect(0, 0, curve.width, MM_CURVE_HEIGHT);
  const x = mmX(curve, curve.row);
  if (curve.since !== null) {
    const from = mmX(curve, curve.since);
    context.fillStyle = colors.range;
    context.fillRect(Math.min(from, x), MM_TOP - 4, Math.abs(x - from), bottom - MM_TOP + 4);
  }
  context.strokeStyle = context.fillStyle = colors.cursor;
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, MM_TOP - 6);
  context.lineTo(x, bottom);
  context.stroke();
  context.beginPath();
  context.arc(x, bottom, 3.5, 0, 7);
  context.fill();
}

// js/memory/curve.js
function mmCreateCurve(host, data, options) {
  const canvas = uiElement("canvas", {
    class: "mm-curve-canvas",
    tabindex: 0,
    role: "slider",
    "aria-label": "Moment of the history",
    "aria-valuemin": -1,
    "aria-valuemax": data.numRows - 1,
    "aria-valuenow": data.numRows - 1
  });
  const over = uiElement("canvas", { class: "mm-over", "aria-hidden": "true" });
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  host.replaceChildren(uiElement("div", { class: "mm-curve-stage" }, canvas, over), tip);
  const curve = {
    data,
    options,
    host,
    canvas,
    over,
    tip,
    theme: options.theme,
    isTime: data.clock !== null,
    view: null,
    row: data.numRows - 1,
    since: null,
    pointer: null,
    pending: 0,
    script: []
  };
  curve.view = mmWhole(curve);
  mmListenCurve(curve);
  return {
    show(curves, peak, marks) {
      Object.assign(curve, { curves, peak, marks, envelopes: null });
      mmSizeCurve(curve);
    },
    setMoment(row, since) {
      Object.assign(curve, { row, since });
      canvas.setAttribute("aria-valuenow", row);
      canvas.setAttribute("aria-valuetext", mmMomentText(data, row));
      if (curve.curves) mmPaintCursor(curve);
    },
    setAxis(isTime) {
      curve.isTime = isTime && data.clock !== null;
      mmViewTo(curve, mmWhole(curve));
    },
    zoomTo: (view) => mmViewTo(curve, view ?? mmWhole(curve)),
    getView: () => curve.view,
    xOf: (row) => mmX(curve, row),
    setTheme(theme) {
      curve.theme = theme;
      if (curve.curves) mmRepaint(curve);
    },
    resize: () => curve.curves && host.clientWidth !== curve.width && mmSizeCurve(curve),
    stats: () => ({ script: curve.script }),
    destroy() {
      cancelAnimationFrame(curve.pending);
      host.replaceChildren();
    }
  };
}
function mmMomentText(data, row) {
  if (row < 0) return "before the first action";
  const action = `action ${(row + 1).toLocaleString("en-US")} of ${data.numRows.toLocaleString("en-US")}`;
  return data.clock ? `${uiDuration(data.clock[row])}, ${action}` : action;
}
function mmSizeCurve(curve) {
  curve.width = Math.max(curve.host.clientWidth || curve.width || 0, 160);
  curve.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [curve.canvas, curve.over]) {
    canvas.width = Math.floor(curve.width * curve.ratio);
    canvas.height = Math.floor(MM_CURVE_HEIGHT * curve.ratio);
    canvas.style.width = `${curve.width}px`;
    canvas.style.height = `${MM_CURVE_HEIGHT}px`;
  }
  mmRepaint(curve);
}
function mmViewTo(curve, [from, to]) {
  const [, end] = mmWhole(curve);
  const span = Math.min(Math.max(to - from, curve.isTime ? 100 : 4), end);
  const begin = Math.min(Math.max(from, 0), end - span);
  curve.view = [begin, begin + span];
  mmRepaint(curve);
}
function mmRepaint(curve) {
  if (curve.pending) return;
  curve.pending = requestAnimationFrame(() => {
    curve.pending = 0;
    if (!curve.curves) return;
    const began = performance.now();
    mmPaintCurves(curve);
    mmPaintCursor(curve);
    curve.script.push(performance.now() - began);
  });
}
function mmListenCurve(curve) {
  const { canvas } = curve;
  const rowOf = (event) => {
    const x = event.clientX - canvas.getBoundingClientRect().left;
    return mmRowAt(curve, curve.view[0] + x / curve.width * (curve.view[1] - curve.view[0]));
  };
  const tell = (row, since) => {
    const clamped = Math.min(Math.max(row, -1), curve.data.numRows - 1);
    curve.options.onMoment(clamped, since === clamped ? null : since);
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !curve.curves) return;
    curve.pointer = { x: event.clientX, row: rowOf(event) };
    canvas.setPointerCapture(event.pointerId);
    tell(curve.pointer.row, null);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!curve.curves) return;
    mmCurveTip(curve, event, rowOf(event));
    if (!curve.pointer || Math.abs(event.clientX - curve.pointer.x) < 3) return;
    const row = rowOf(event);
    tell(Math.max(row, curve.pointer.row), Math.min(row, curve.pointer.row));
  });
  canvas.addEventListener("pointerup", () => curve.pointer = null);
  canvas.addEventListener("pointercancel", () => curve.pointer = null);
  canvas.addEventListener("pointerleave", () => curve.tip.hidden = true);
  canvas.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const share = (event.clientX - canvas.getBoundingClientRect().left) / curve.width;
    mmCurveZoom(curve, Math.exp(event.deltaY / 200), share);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => mmCurveKey(curve, event, tell));
}
function mmCurveZoom(curve, factor, share) {
  const [from, to] = curve.view;
  const at = from + (to - from) * share;
  mmViewTo(curve, [at - (at - from) * factor, at + (to - at) * factor]);
}
function mmCurveTip(curve, event, row) {
  const { tip, curves } = curve;
  const text = MM_SERIES.map((name) => `${name} ${uiSize(curves[name][row + 1])}`);
  tip.replaceChildren(...[mmMomentText(curve.data, row), ...text].map((line) => uiElement("div", {}, line)));
  tip.hidden = false;
  const x = event.clientX - curve.canvas.getBoundingClientRect().left;
  tip.style.left = `${Math.max(Math.min(x + 14, curve.width - tip.offsetWidth - 4), 0)}px`;
  tip.style.top = "24px";
}
function mmCurveKey(curve, event, tell) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const { data, row, since, view, width } = curve;
  const pixel = (view[1] - view[0]) / width;
  const moved = (pixels) => {
    const next = mmRowAt(curve, mmPlace(curve, row) + pixels * pixel);
    return next === row ? row + Math.sign(pixels) : next;
  };
  const targets = {
    ArrowRight: () => moved(1),
    ArrowLeft: () => moved(-1),
    PageUp: () => moved(-width / 10),
    PageDown: () => moved(width / 10),
    Home: () => -1,
    End: () => data.numRows - 1,
    p: () => curve.peak.row,
    P: () => curve.peak.row
  };
  if (event.key in targets) {
    const next = targets[event.key]();
    tell(next, event.shiftKey ? since ?? Math.min(row, next) : null);
  } else if (event.key === "+" || event.key === "=") mmCurveZoom(curve, 1 / 1.6, (mmPlace(curve, row) - view[0]) / (view[1] - view[0]));
  else if (event.key === "-") mmCurveZoom(curve, 1.6, 0.5);
  else if (event.key === "0") mmViewTo(curve, mmWhole(curve));
  else if (event.key === "Escape" && since !== null) tell(row, null);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// js/memory/facts.js
var MM_ROWS = 25;
var MM_PARTS = [
  ["requested", "asked for", "what programs asked for, of blocks in use"],
  ["internal", "rounding", "blocks in use that are larger than what was asked for"],
  ["external", "gaps", "free memory in segments that hold something: it fits only what is small enough"],
  ["empty", "cached", "segments in which nothing is in use; torch.cuda.empty_cache() returns them"]
];
function mmRenderFragmentation(host, moment) {
  const { sums } = moment;
  const parts = { ...sums, requested: sums.active - sums.internal };
  const share = (bytes) => sums.reserved ? 100 * bytes / sums.reserved : 0;
  const wasted = sums.internal + sums.external;
  const bar = uiElement(
    "div",
    { class: "mm-bar", role: "img", "aria-label": "Reserved memory by use" },
    ...MM_PARTS.filter(([key]) => parts[key] > 0).map(([key, label]) => {
      const piece = uiElement("span", { class: `mm-part mm-is-${key}`, title: `${label}: ${uiSize(parts[key])}` });
      piece.style.flexGrow = String(parts[key]);
      return piece;
    })
  );
  const legend = MM_PARTS.map(([key, label, meaning]) => uiElement(
    "span",
    { class: "mm-key", title: meaning },
    uiElement("i", { class: `mm-is-${key}` }),
    `${label} ${uiSize(parts[key])} (${uiPercent(share(parts[key]))})`
  ));
  const words = sums.reserved ? `Fragmentation ${uiPercent(share(wasted))} of ${uiSize(sums.reserved)} reserved; the largest block that fits without new memory is ${uiSize(sums.largest)}.` : "No memory was reserved.";
  host.replaceChildren(uiElement("p", {}, words), bar, uiElement("p", { class: "mm-legend" }, ...legend));
}
function mmRenderHolders(host, data, chosen, state, onPick) {
  const groups = mmGrouped(data, chosen, state.by);
  const total = groups.reduce((sum, { bytes }) => sum + bytes, 0);
  const row = ({ key, label, bytes, num }) => {
    const isPicked = state.picked === key;
    const fill = uiElement("span", { class: "mm-fill" });
    fill.style.width = `${total ? 100 * bytes / total : 0}%`;
    const node = uiElement(
      "tr",
      {
        tabindex: 0,
        "data-picked": isPicked,
        "aria-pressed": String(isPicked),
        role: "button",
        title: state.by === "stack" && key >= 0 ? mmStackLines(data, key).join("\n") : null
      },
      uiElement("td", { class: "mm-name" }, fill, uiElement("span", {}, label)),
      uiElement("td", {}, uiSize(bytes)),
      uiElement("td", {}, uiPercent(total ? 100 * bytes / total : 0)),
      uiElement("td", {}, uiCount(num))
    );
    const pick = () => onPick(isPicked ? null : key);
    node.addEventListener("click", pick);
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      pick();
    });
    return node;
  };
  const head = uiElement("tr", {}, ...[Object.fromEntries(mmGroupings(data))[state.by], "held", "share", "blocks"].map((text) => uiElement("th", { scope: "col" }, text)));
  const rest = groups.slice(MM_ROWS);
  const note = rest.length ? `and ${uiPlural(rest.length, "more").replace("mores", "more")} with ${uiSize(rest.reduce((sum, { bytes }) => sum + bytes, 0))}` : "";
  const empty = groups.length ? null : uiElement("p", { class: "cl-hint" }, "Nothing was in use.");
  host.replaceChildren(
    uiElement(
      "table",
      { class: "mm-table" },
      uiElement("thead", {}, head),
      uiElement("tbody", {}, ...groups.slice(0, MM_ROWS).map(row))
    ),
    ...empty ? [empty] : [],
    ...note ? [uiElement("p", { class: "cl-hint" }, note)] : []
  );
}
function mmStackLines(data, stack) {
  return [...data.stacks.idsOf(stack)].map((id) => {
    const { file, line, name } = data.stacks.frameAt(id);
    return `${file}${line >= 0 ? `:${line}` : ""} ${name || "?"}`.trim();
  });
}
function mmDescribe(data, moment, hit) {
  const { lives, header } = data;
  const strip = moment.strips[hit.strip];
  const pool = mmPoolText(header.pools[strip.pool]);
  if (hit.life < 0) return [`free, ${uiSize(hit.bytes)}`, strip.used ? "a gap between blocks" : "an empty segment", pool];
  const life = hit.life;
  const names = mmNames(data, life);
  const category = lives.category[life] ? header.categories[lives.category[life] - 1] : null;
  return [
    [names.slice(0, 3).join(", "), uiSize(lives.bytes[life]), category].filter(Boolean).join(" · "),
    lives.released[life] <= moment.row ? "freed, waits for a stream" : null,
    mmStackLabel(data, lives.stack[life]),
    pool
  ].filter(Boolean);
}
function mmRenderDetails(host, data, moment, hit) {
  host.hidden = !hit;
  if (!hit) return;
  const facts = hit.life < 0 ? mmGapFacts(data, moment, hit) : mmBlockFacts(data, moment, hit);
  const rows = facts.filter(([, value]) => value !== null && value !== void 0 && value !== "").flatMap(([name, value]) => [uiElement("dt", {}, name), uiElement("dd", {}, String(value))]);
  const stack = hit.life >= 0 ? data.lives.stack[hit.life] : -1;
  const frames = stack >= 0 ? mmStackLines(data, stack) : [];
  host.replaceChildren(
    uiElement("h4", {}, hit.life < 0 ? "Free memory" : "Block"),
    uiElement("dl", { class: "cl-facts" }, ...rows),
    ...frames.length ? [uiElement("h4", {}, "Allocated by"), uiElement("pre", { class: "mm-stack" }, frames.join("\n"))] : []
  );
}
var mmAddress = (data, offset) => `0x${(BigInt(data.header.base) + BigInt(Math.round(offset))).toString(16)}`;
function mmSegmentFacts(data, moment, hit) {
  const strip = moment.strips[hit.strip];
  return [
    ["pool", mmPoolText(data.header.pools[strip.pool])],
    ["segment", `${uiSize(strip.bytes)} at ${mmAddress(data, strip.addr)}${strip.grows ? ", expandable" : ""}`],
    ["segment in use", uiPercent(100 * strip.used / strip.bytes)]
  ];
}
function mmGapFacts(data, moment, hit) {
  return [["size", `${uiSize(hit.bytes)} (${uiCount(hit.bytes)} bytes)`], ["address", mmAddress(data, hit.from)], ...mmSegmentFacts(data, moment, hit)];
}
function mmBlockFacts(data, moment, hit) {
  const { lives, header, clock } = data;
  const life = hit.life;
  const told = mmTold(data, life);
  const asked = lives.requested[life];
  const ended = lives.done[life] < data.numRows ? mmMomentText(data, lives.done[life]) : null;
  const age = lives.alloc[life] >= 0 && clock ? uiDuration(clock[Math.max(moment.row, 0)] - clock[lives.alloc[life]]) : null;
  return [
    ["held by", mmNames(data, life).join(", ")],
    ["size", `${uiSize(lives.bytes[life])} (${uiCount(lives.bytes[life])} bytes)`],
    ["asked for", Number.isNaN(asked) ? null : `${uiSize(asked)} (${uiCount(asked)} bytes)`],
    ["state", lives.released[life] <= moment.row ? "freed, waits for a stream" : "in use"],
    ["category", lives.category[life] ? header.categories[lives.category[life] - 1] : "unknown"],
    ["allocated", lives.alloc[life] < 0 ? "before the history" : mmMomentText(data, lives.alloc[life])],
    ["age then", age],
    ["freed", ended],
    ["cell", told.cell],
    ["live tensors", told.num_tensors],
    ["graphs", told.graph],
    ["metadata", told.user_metadata],
    ["address", mmAddress(data, lives.addr[life])],
    ...mmSegmentFacts(data, moment, hit)
  ];
}

// js/memory/stacks.js
function mmStackTree(stacks) {
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
function mmStackSums(tree, lives, chosen) {
  const n = tree.parent.length;
  const [bytes, num] = [new Float64Array(n), new Float64Array(n)];
  for (const i of chosen) {
    const at = lives.stack[i] < 0 ? 0 : tree.leaf[lives.stack[i]];
    bytes[at] += lives.bytes[i];
    num[at] += 1;
  }
  for (let k = n - 1; k > 0; k--) {
    bytes[tree.parent[k]] += bytes[k];
    num[tree.parent[k]] += num[k];
  }
  return { bytes, num };
}
function mmChildren(tree) {
  const children = tree.parent.map(() => []);
  for (let k = 1; k < tree.parent.length; k++) children[tree.parent[k]].push(k);
  return children;
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
function themeGroup(category, name) {
  const { groups } = theme_default;
  const found = groups.findIndex((group) => group.cats.includes(category));
  if (found < 0) return groups.length - 1;
  const isComm = groups[found].key === "kernel" && theme_default.comm_prefixes.some((p) => name.startsWith(p));
  return isComm ? groups.findIndex((group) => group.key === "comm") : found;
}
function themeHash(name) {
  let value = 2166136261;
  for (let i = 0; i < name.length; i++) value = Math.imul(value ^ name.charCodeAt(i), 16777619);
  return value >>> 0;
}
var themeRgb = (color) => [1, 3, 5].map((k) => parseInt(color.slice(k, k + 2), 16));
function themeMix(color, toward, share) {
  const other = themeRgb(toward);
  return themeRgb(color).map((a, k) => Math.floor(a + (other[k] - a) * share + 0.5));
}
function themeLuminance(rgb) {
  const [r, g, b] = rgb.map((v) => v / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
var THEME_SHADES = theme_default.light.shades.length;
function themeTones(mode) {
  const { shades } = theme_default[mode];
  const all = theme_default.groups.flatMap((group) => shades.map(([toward, share]) => themeMix(group.color, toward, share)));
  return {
    pixels: Uint32Array.from(all, ([r, g, b]) => (b << 16 | g << 8 | r) >>> 0),
    css: all.map((rgb) => `rgb(${rgb.join(",")})`),
    ink: all.map((rgb) => (themeLuminance(rgb) + 0.05) ** 2 > 0.05 * 1.05 ? "#000000" : "#ffffff")
  };
}

// js/memory/flame.js
var MM_FLAME_ROW = 19;
var MM_FLAME_MAX = 420;
var MM_FLAME = { light: ["#f3b562", "#f0a06a", "#eec57c", "#e9927a", "#f6d08f"], dark: ["#a8642a", "#9c5230", "#8f6b2f", "#a14b3f", "#b07a35"] };
function mmCreateFlame(host, data, options) {
  const input = uiElement("input", { type: "search", class: "mm-search", placeholder: "Search functions and files", "aria-label": "Search call stacks" });
  const reset = uiElement("button", { type: "button", class: "cl-button", hidden: true, onclick: () => mmFlameZoom(flame, 0) }, "Whole graph");
  const found = uiElement("span", { class: "mm-muted", "aria-live": "polite" });
  const canvas = uiElement("canvas", {
    class: "mm-flame-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Bytes by call stack. Arrow keys go between stack frames, Enter zooms, Escape shows all."
  });
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  const said = uiElement("p", { class: "mm-said", "aria-live": "polite" });
  const scroller = uiElement("div", { class: "mm-flame-scroll" }, canvas);
  host.replaceChildren(uiElement("div", { class: "mm-tools" }, input, reset, found), uiElement("div", { class: "mm-flame-stage" }, scroller, tip), said);
  const flame = {
    data,
    options,
    host,
    canvas,
    tip,
    said,
    reset,
    found,
    theme: options.theme,
    tree: null,
    chosen: [],
    root: 0,
    query: "",
    boxes: [],
    focus: -1,
    pending: 0
  };
  mmListenFlame(flame, input);
  return {
    show(chosen) {
      if (!data.stacks.n) return;
      flame.tree ??= mmStackTree(data.stacks);
      flame.children ??= mmChildren(flame.tree);
      flame.sums = mmStackSums(flame.tree, data.lives, chosen);
      mmFlamePaint(flame);
    },
    zoom: (node) => mmFlameZoom(flame, node),
    search(text) {
      input.value = text;
      mmFlameSearch(flame, text);
    },
    get tree() {
      return flame.tree;
    },
    get sums() {
      return flame.sums;
    },
    get root() {
      return flame.root;
    },
    boxes: () => flame.boxes,
    textOf: (node) => mmFlameText(flame, node),
    setTheme(theme) {
      flame.theme = theme;
      mmFlamePaint(flame);
    },
    resize: () => host.clientWidth !== flame.width && mmFlamePaint(flame),
    destroy() {
      cancelAnimationFrame(flame.pending);
      host.replaceChildren();
    }
  };
}
var mmFlameText = (flame, node) => node ? mmFrameText(flame.data.stacks.frameAt(flame.tree.frame[node])) : "all";
function mmFlameLayout(flame) {
  const { tree, sums, children, width, root } = flame;
  const above = [];
  for (let k = root; k >= 0; k = tree.parent[k]) above.unshift(k);
  const boxes = above.map((node, row) => ({ node, x: 0, width, row }));
  const open = [[root, 0, above.length]];
  const scale = width / Math.max(sums.bytes[root], 1);
  while (open.length) {
    const [node, x, row] = open.pop();
    let at = x;
    for (const child of [...children[node]].sort((a, b) => sums.bytes[b] - sums.bytes[a])) {
      const wide = sums.bytes[child] * scale;
      if (wide < 0.8) break;
      boxes.push({ node: child, x: at, width: wide, row });
      open.push([child, at, row + 1]);
      at += wide;
    }
  }
  return boxes;
}
function mmFlamePaint(flame) {
  if (flame.pending || !flame.tree) return;
  flame.pending = requestAnimationFrame(() => {
    flame.pending = 0;
    mmFlamePaintNow(flame);
  });
}
function mmFlamePaintNow(flame) {
  const { canvas, theme } = flame;
  flame.width = Math.max(flame.host.clientWidth || flame.width || 0, 160);
  flame.boxes = mmFlameLayout(flame);
  const height = MM_FLAME_ROW * (1 + flame.boxes.reduce((most, { row }) => Math.max(most, row), 0));
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.floor(flame.width * ratio);
  canvas.height = Math.floor(height * ratio);
  canvas.style.width = `${flame.width}px`;
  canvas.style.height = `${height}px`;
  canvas.parentElement.style.maxHeight = `${MM_FLAME_MAX}px`;
  const context = canvas.getContext("2d");
  const style = getComputedStyle(canvas);
  context.scale(ratio, ratio);
  context.font = `11px ${style.fontFamily}`;
  context.textBaseline = "middle";
  for (const box of flame.boxes) mmFlameBox(flame, context, box, theme, style.color);
}
function mmFlameBox(flame, context, { node, x, width, row }, theme, ink) {
  const { query, focus, tree, root } = flame;
  const text = mmFlameText(flame, node);
  const isFound = query && text.toLowerCase().includes(query);
  const hues = MM_FLAME[theme];
  const isAbove = node !== root && row <= tree.depth[root];
  context.globalAlpha = query && !isFound ? 0.4 : isAbove ? 0.6 : 1;
  context.fillStyle = isFound ? theme === "dark" ? "#7a5cc4" : "#b79cf0" : node ? hues[themeHash(text) % hues.length] : hues[0];
  context.fillRect(x, row * MM_FLAME_ROW, Math.max(width - 1, 0.6), MM_FLAME_ROW - 1);
  context.globalAlpha = 1;
  if (width > 30) {
    context.save();
    context.beginPath();
    context.rect(x, row * MM_FLAME_ROW, width - 3, MM_FLAME_ROW);
    context.clip();
    context.fillStyle = theme === "dark" ? "#ffffff" : "#000000";
    context.fillText(`${text}  ${uiSize(flame.sums.bytes[node])}`, x + 4, row * MM_FLAME_ROW + MM_FLAME_ROW / 2);
    context.restore();
  }
  if (node === focus) {
    context.strokeStyle = ink;
    context.lineWidth = 2;
    context.strokeRect(x + 1, row * MM_FLAME_ROW + 1, Math.max(width - 3, 1), MM_FLAME_ROW - 3);
  }
}
function mmFlameZoom(flame, node) {
  flame.root = node;
  flame.reset.hidden = node === 0;
  flame.tip.hidden = true;
  mmFlamePaint(flame);
  const { tree } = flame;
  const isUnder = (at) => {
    for (let k = at; k >= 0; k = tree.parent[k]) if (k === node) return true;
    return false;
  };
  const inside = node ? Uint8Array.from(tree.leaf, (leaf) => isUnder(leaf) ? 1 : 0) : null;
  flame.options.onZoom(inside && ((stack) => stack >= 0 && inside[stack] === 1));
}
function mmFlameSearch(flame, text) {
  flame.query = text.trim().toLowerCase();
  mmFlamePaint(flame);
  if (!flame.query || !flame.tree) {
    flame.found.textContent = "";
    return;
  }
  const { tree, sums } = flame;
  const isHit = tree.parent.map((_, k) => k > 0 && mmFlameText(flame, k).toLowerCase().includes(flame.query));
  let [bytes, num] = [0, 0];
  const isInside = new Uint8Array(tree.parent.length);
  for (let k = 1; k < tree.parent.length; k++) {
    isInside[k] = isInside[tree.parent[k]] || isHit[tree.parent[k]] ? 1 : 0;
    if (!isHit[k] || isInside[k]) continue;
    bytes += sums.bytes[k];
    num += sums.num[k];
  }
  const share = sums.bytes[0] ? 100 * bytes / sums.bytes[0] : 0;
  flame.found.textContent = num ? `${uiSize(bytes)} (${uiPercent(share)}) in ${uiPlural(num, "block")}` : "nothing fits";
}
function mmListenFlame(flame, input) {
  const { canvas, tip } = flame;
  const boxAt = (event) => {
    const box = canvas.getBoundingClientRect();
    const [x, row] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / MM_FLAME_ROW)];
    return flame.boxes.find((one) => one.row === row && one.x <= x && x < one.x + Math.max(one.width, 1));
  };
  input.addEventListener("input", () => mmFlameSearch(flame, input.value));
  canvas.addEventListener("click", (event) => {
    const box = boxAt(event);
    if (box) mmFlameZoom(flame, box.node);
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = boxAt(event);
    tip.hidden = !box;
    if (!box) return;
    tip.replaceChildren(...mmFlameWords(flame, box.node).map((line) => uiElement("div", {}, line)));
    const stage = tip.parentElement.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(event.clientX - stage.left + 12, flame.width - tip.offsetWidth - 4), 0)}px`;
    tip.style.top = `${event.clientY - stage.top + 16}px`;
  });
  canvas.addEventListener("pointerleave", () => tip.hidden = true);
  canvas.addEventListener("keydown", (event) => mmFlameKey(flame, event));
}
function mmFlameWords(flame, node) {
  const { sums } = flame;
  const { file } = node ? flame.data.stacks.frameAt(flame.tree.frame[node]) : { file: "" };
  const share = sums.bytes[0] ? 100 * sums.bytes[node] / sums.bytes[0] : 0;
  return [mmFlameText(flame, node), `${uiSize(sums.bytes[node])} (${uiPercent(share)}) in ${uiPlural(sums.num[node], "block")}`, file].filter(Boolean);
}
function mmFlameKey(flame, event) {
  if (!flame.tree || event.altKey || event.ctrlKey || event.metaKey) return;
  const { boxes, tree } = flame;
  const box = boxes.find(({ node }) => node === flame.focus) ?? boxes[0];
  const beside = boxes.filter(({ row }) => row === box.row).sort((a, b) => a.x - b.x);
  const step = (by) => beside[Math.min(Math.max(beside.indexOf(box) + by, 0), beside.length - 1)].node;
  const below = boxes.filter(({ node }) => tree.parent[node] === box.node).sort((a, b) => b.width - a.width)[0];
  const moves = { ArrowUp: () => Math.max(tree.parent[box.node], 0), ArrowDown: () => below?.node ?? box.node, ArrowLeft: () => step(-1), ArrowRight: () => step(1) };
  if (event.key in moves) {
    flame.focus = flame.focus < 0 ? boxes[0].node : moves[event.key]();
    flame.said.textContent = mmFlameWords(flame, flame.focus).join(", ");
    mmFlamePaint(flame);
  } else if ((event.key === "Enter" || event.key === " ") && flame.focus >= 0) mmFlameZoom(flame, flame.focus);
  else if (event.key === "Escape" && flame.root) mmFlameZoom(flame, 0);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

// js/memory/layout.js
var MM_LINE = 16;
var MM_BAR = 14;
var MM_HEAD = 22;
var MM_KINDS = ["", " · small blocks", " · large blocks"];
function mmGroups(data, moment) {
  const groups = /* @__PURE__ */ new Map();
  moment.strips.forEach((strip, k) => {
    const key = `${strip.pool}/${strip.kind}`;
    const group = groups.get(key) ?? { strips: [], bytes: 0, used: 0, pool: strip.pool, kind: strip.kind };
    group.strips.push(k);
    group.bytes += strip.bytes;
    group.used += strip.used;
    groups.set(key, group);
  });
  const found = [...groups.values()].sort((a, b) => a.pool - b.pool || b.kind - a.kind);
  for (const group of found) group.label = mmPoolText(data.header.pools[group.pool]) + MM_KINDS[group.kind];
  return found;
}
function mmLayout(moment, groups, width, bytesPerPx) {
  const lineBytes = width * bytesPerPx;
  const heads = [];
  const lines = [];
  const part = { strip: [], from: [], bytes: [], x: [] };
  let y = 0;
  const openLine = () => {
    lines.push({ y, first: part.strip.length, end: part.strip.length });
    y += MM_LINE;
  };
  const put = (strip, from, bytes, at) => {
    part.strip.push(strip);
    part.from.push(from);
    part.bytes.push(bytes);
    part.x.push(at / bytesPerPx);
    lines.at(-1).end = part.strip.length;
  };
  for (const group of groups) {
    heads.push({ y, group });
    y += MM_HEAD;
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
      at += last + mmSpace(bytes / bytesPerPx) * bytesPerPx;
    }
    y += 4;
  }
  return { heads, lines, part, height: y, width, bytesPerPx };
}
function mmSpace(px) {
  return px >= 12 ? 3 : px >= 4 ? 1 : 0;
}
function mmFit(moment, groups, width, height) {
  const longest = Math.max(...groups.map((group) => group.bytes), 1);
  let [low, high] = [longest / width / 4096, longest * 1.5 / width];
  for (let step = 0; step < 24; step++) {
    const middle = Math.sqrt(low * high);
    if (mmLayout(moment, groups, width, middle).height > height) low = middle;
    else high = middle;
  }
  return high;
}
function mmLineAt(lines, y) {
  let [low, high] = [0, lines.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (lines[middle].y <= y) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
function mmFirstAfter(lives, alive, first, end, addr) {
  let [low, high] = [first, end];
  while (low < high) {
    const middle = low + high >> 1;
    if (lives.addr[alive[middle]] + lives.bytes[alive[middle]] <= addr) low = middle + 1;
    else high = middle;
  }
  return low;
}
function mmHit(data, moment, layout, x, y) {
  const k = mmLineAt(layout.lines, y);
  if (k < 0 || y > layout.lines[k].y + MM_LINE) return null;
  const { part } = layout;
  for (let p = layout.lines[k].first; p < layout.lines[k].end; p++) {
    const width = part.bytes[p] / layout.bytesPerPx;
    if (x < part.x[p] || x >= part.x[p] + Math.max(width, 1)) continue;
    const strip = moment.strips[part.strip[p]];
    return mmAtAddress(data, moment, part.strip[p], strip.addr + part.from[p] + (x - part.x[p]) * layout.bytesPerPx);
  }
  return null;
}
function mmAtAddress(data, moment, k, addr) {
  const { lives } = data;
  const strip = moment.strips[k];
  const at = mmFirstAfter(lives, moment.lives, strip.first, strip.end, addr);
  const life = at < strip.end ? moment.lives[at] : -1;
  if (life >= 0 && lives.addr[life] <= addr) return { strip: k, life, from: lives.addr[life], bytes: lives.bytes[life] };
  const before = at > strip.first ? moment.lives[at - 1] : -1;
  const from = before < 0 ? strip.addr : lives.addr[before] + lives.bytes[before];
  return { strip: k, life: -1, from, bytes: (life < 0 ? strip.addr + strip.bytes : lives.addr[life]) - from };
}
function mmBoxes(moment, layout, { strip, from, bytes }) {
  const { part, lines, bytesPerPx } = layout;
  const begin = from - moment.strips[strip].addr;
  const boxes = [];
  let p = part.strip.indexOf(strip);
  let line = 0;
  for (; p >= 0 && p < part.strip.length && part.strip[p] === strip; p++) {
    const [a, b] = [Math.max(begin, part.from[p]), Math.min(begin + bytes, part.from[p] + part.bytes[p])];
    if (a >= b) continue;
    while (lines[line].end <= p) line++;
    boxes.push({ x: part.x[p] + (a - part.from[p]) / bytesPerPx, y: lines[line].y, width: (b - a) / bytesPerPx, height: MM_BAR });
  }
  return boxes;
}

// js/memory/draw.js
var MM_HATCH = 6;
var [MM_SOLID, MM_GAP, MM_PENDING] = [0, 1, 2];
var MM_MIN_LABEL = 64;
var MM_MAX_LABELS = 400;
function mmDraw(context, shown) {
  const { layout, theme, top, height, ratio } = shown;
  const width = Math.floor(layout.width * ratio);
  const rows = Math.floor(height * ratio);
  const image = new ImageData(Math.max(width, 1), Math.max(rows, 1));
  const pixels = new Uint32Array(image.data.buffer);
  const ground = MM_GROUND[theme];
  const painter = {
    width,
    line: new Uint32Array(width),
    kind: new Uint8Array(width),
    weight: new Float32Array(width),
    gap: mmPacked(ground.gap),
    hatch: mmPacked(ground.hatch),
    dim: mmPacked(ground.dim),
    bg: 0
  };
  const labels = [];
  const from = Math.max(mmLineAt(layout.lines, top), 0);
  for (let k = from; k < layout.lines.length && layout.lines[k].y < top + height; k++) {
    mmPaintLine(shown, painter, layout.lines[k], labels);
    mmCopyLine(pixels, painter, Math.round((layout.lines[k].y - top) * ratio), Math.round(MM_BAR * ratio), rows);
  }
  context.putImageData(image, 0, 0);
  mmWrite(context, shown, labels);
}
function mmPaintLine(shown, painter, line, labels) {
  const { data, moment, layout, ratio, codes, isDim, coloring } = shown;
  const { lives } = data;
  const { part, bytesPerPx } = layout;
  const scale = ratio / bytesPerPx;
  painter.line.fill(painter.bg);
  painter.kind.fill(MM_SOLID);
  painter.weight.fill(0);
  for (let p = line.first; p < line.end; p++) {
    const strip = moment.strips[part.strip[p]];
    const x = part.x[p] * ratio;
    const [begin, bytes] = [strip.addr + part.from[p], part.bytes[p]];
    const right = Math.min(Math.max(Math.round(x + bytes * scale), Math.round(x) + 1), painter.width);
    for (let at = Math.round(x); at < right; at++) {
      painter.line[at] = painter.gap;
      painter.kind[at] = MM_GAP;
    }
    for (let k = mmFirstAfter(lives, moment.lives, strip.first, strip.end, begin); k < strip.end; k++) {
      const life = moment.lives[k];
      const offset = lives.addr[life] - begin;
      if (offset >= bytes) break;
      const low = x + Math.max(offset, 0) * scale;
      const high = x + Math.min(offset + lives.bytes[life], bytes) * scale;
      const first = Math.round(low);
      const last = Math.min(Math.round(high), right);
      const isPending = lives.released[life] <= moment.row;
      const isFaint = isDim !== null && isDim[k];
      const color = isFaint ? painter.dim : coloring.pixels[codes[k]];
      if (last - first < 1) {
        const at = Math.min(Math.floor(low), painter.width - 1);
        if (high - low > painter.weight[at]) {
          painter.weight[at] = high - low;
          painter.line[at] = color;
          painter.kind[at] = isPending ? MM_PENDING : MM_SOLID;
        }
        continue;
      }
      for (let at = first; at < last; at++) {
        painter.line[at] = color;
        painter.kind[at] = isPending ? MM_PENDING : MM_SOLID;
        painter.weight[at] = 1;
      }
      if (last - first > 3 * ratio) {
        for (let at = last - Math.round(ratio); at < last; at++) painter.line[at] = isFaint ? painter.bg : coloring.edges[codes[k]];
        if ((last - first) / ratio > MM_MIN_LABEL && labels.length < MM_MAX_LABELS && !isFaint && !isPending) {
          labels.push({ life, code: codes[k], x: first / ratio, width: (last - first) / ratio, y: line.y });
        }
      }
    }
  }
}
function mmCopyLine(pixels, painter, y0, height, rows) {
  const { width, line, kind } = painter;
  for (let y = Math.max(y0, 0); y < Math.min(y0 + height, rows); y++) {
    const at = y * width;
    pixels.set(line, at);
    for (let x = 0; x < width; x++) {
      if (kind[x] === MM_SOLID) continue;
      const isLine = (x + y) % MM_HATCH === 0;
      if (kind[x] === MM_GAP) {
        if (isLine) pixels[at + x] = painter.hatch;
      } else if ((x + y) % MM_HATCH < 2) pixels[at + x] = painter.bg;
    }
  }
}
function mmWrite(context, shown, labels) {
  const { data, layout, coloring, top, height, ratio, ink, font } = shown;
  context.save();
  context.scale(ratio, ratio);
  context.textBaseline = "middle";
  context.font = `600 12px ${font}`;
  context.fillStyle = ink;
  for (const { y, group } of layout.heads) {
    if (y + MM_HEAD < top || y > top + height) continue;
    const free = uiSize(Math.max(group.bytes - group.used, 0));
    const text = `${group.label}: ${uiSize(group.bytes)} in ${uiPlural(group.strips.length, "segment")}, ${free} free`;
    context.fillText(mmShort(context, text, layout.width), 0, y - top + MM_HEAD / 2 + 1);
  }
  context.font = `11px ${font}`;
  for (const { life, code, x, width, y } of labels) {
    const [r, g, b] = coloring.rgb[code];
    context.fillStyle = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#000000" : "#ffffff";
    const text = mmShort(context, mmBlockName(data, life), width - 8);
    if (text) context.fillText(text, x + 4, y - top + MM_LINE / 2 - 0.5);
  }
  context.restore();
}
function mmShort(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let n = Math.min(text.length, Math.floor(width / 3));
  while (n > 2 && context.measureText(`${text.slice(0, n)}…`).width > width) n--;
  return n > 2 ? `${text.slice(0, n)}…` : "";
}
function mmBlockName(data, life) {
  const [name] = mmNames(data, life);
  return name ? `${name} · ${uiSize(data.lives.bytes[life])}` : uiSize(data.lives.bytes[life]);
}

// js/memory/pool_keys.js
function mmKey(pool, event, { choose: choose2, zoom }) {
  if (!pool.moment?.strips.length || event.altKey || event.ctrlKey || event.metaKey) return;
  const { key } = event;
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (key in steps) choose2(mmBeside(pool, steps[key]), true);
  else if (key === "ArrowDown" || key === "ArrowUp") choose2(mmAbove(pool, key === "ArrowDown" ? 1 : -1), true);
  else if (key === "Home") choose2(mmAtAddress(pool.data, pool.moment, mmOrder(pool)[0], mmBegin(pool, mmOrder(pool)[0])), true);
  else if (key === "End") choose2(mmLast(pool, mmOrder(pool).at(-1)), true);
  else if (key === "+" || key === "=") zoom(1.6, null);
  else if (key === "-") zoom(1 / 1.6, null);
  else if (key === "0") zoom(1 / pool.zoom, null);
  else if (key === "Escape" && pool.chosen) choose2(null, false);
  else return;
  event.preventDefault();
  event.stopPropagation();
}
var mmOrder = (pool) => pool.groups.flatMap((group) => group.strips);
var mmBegin = (pool, k) => pool.moment.strips[k].addr;
function mmLast(pool, k) {
  const strip = pool.moment.strips[k];
  return mmAtAddress(pool.data, pool.moment, k, strip.addr + strip.bytes - 1);
}
function mmBeside(pool, step) {
  const order = mmOrder(pool);
  const { chosen, moment, data } = pool;
  if (!chosen) return mmAtAddress(data, moment, order[0], mmBegin(pool, order[0]));
  const strip = moment.strips[chosen.strip];
  const next = step > 0 ? chosen.from + chosen.bytes : chosen.from - 1;
  if (next >= strip.addr && next < strip.addr + strip.bytes) return mmAtAddress(data, moment, chosen.strip, next);
  const k = order.indexOf(chosen.strip) + step;
  if (k < 0 || k >= order.length) return chosen;
  return step > 0 ? mmAtAddress(data, moment, order[k], mmBegin(pool, order[k])) : mmLast(pool, order[k]);
}
function mmAbove(pool, step) {
  const { chosen, layout, moment, data } = pool;
  if (!chosen) return mmBeside(pool, 1);
  const box = mmBoxes(moment, layout, chosen).at(step > 0 ? -1 : 0);
  if (!box) return chosen;
  const line = layout.lines[mmLineAt(layout.lines, box.y) + step];
  return (line && mmHit(data, moment, layout, Math.min(box.x + 1, pool.width - 2), line.y + 1)) ?? (line ? mmHit(data, moment, layout, layout.part.x[line.first], line.y + 1) : chosen);
}

// js/memory/pool.js
var MM_HEIGHT = 420;
var MM_MIN_HEIGHT = 60;
var MM_MAX_LINES = 6e4;
function mmCreatePool(host, data, options) {
  const canvas = uiElement("canvas", {
    class: "mm-canvas",
    tabindex: 0,
    role: "application",
    "aria-label": "Pool map. Arrow keys go from block to block, plus and minus zoom, 0 shows all."
  });
  const over = uiElement("canvas", { class: "mm-over", "aria-hidden": "true" });
  const spacer = uiElement("div", { class: "mm-spacer" });
  const stage = uiElement("div", { class: "mm-stage" }, canvas, over);
  const scroller = uiElement("div", { class: "mm-scroll" }, stage, spacer);
  const tip = uiElement("div", { class: "mm-tip", hidden: true });
  const said = uiElement("p", { class: "mm-said", "aria-live": "polite" });
  host.replaceChildren(scroller, tip, said);
  const pool = {
    data,
    options,
    canvas,
    over,
    stage,
    spacer,
    scroller,
    tip,
    said,
    theme: options.theme,
    color: options.color,
    isDimmed: null,
    zoom: 1,
    hover: null,
    chosen: null,
    script: [],
    pending: 0,
    numLines: 3
  };
  mmListen(pool);
  return {
    show: (moment) => mmShowMoment(pool, moment),
    setColor(color) {
      pool.color = color;
      return mmRecolor(pool);
    },
    setDim(isDimmed) {
      pool.isDimmed = isDimmed;
      mmRecolor(pool);
    },
    choose: (hit) => mmChoose(pool, hit, true),
    zoomBy: (factor) => mmZoom(pool, factor, null),
    fit: () => mmZoom(pool, 1 / pool.zoom, null),
    setTheme(theme) {
      pool.theme = theme;
      return mmRecolor(pool);
    },
    resize: () => pool.moment && pool.scroller.clientWidth !== pool.width && mmRelayout(pool),
    stats: () => ({ script: pool.script, zoom: pool.zoom, lines: pool.layout?.lines.length ?? 0 }),
    hitAt: (x, y) => mmHit(data, pool.moment, pool.layout, x, y + scroller.scrollTop),
    boxesOf: (hit) => mmBoxes(pool.moment, pool.layout, hit),
    destroy() {
      cancelAnimationFrame(pool.pending);
      host.replaceChildren();
    }
  };
}
function mmShowMoment(pool, moment) {
  const isSame = pool.layout && mmHasSameStrips(pool.moment, moment);
  pool.moment = moment;
  pool.groups = mmGroups(pool.data, moment);
  pool.hover = null;
  pool.tip.hidden = true;
  if (isSame) pool.groups.forEach((group, k) => pool.layout.heads[k].group = group);
  else mmRelayout(pool);
  return mmRecolor(pool);
}
function mmHasSameStrips(before, after) {
  return before.device === after.device && before.strips.length === after.strips.length && after.strips.every((strip, k) => {
    const other = before.strips[k];
    return strip.addr === other.addr && strip.bytes === other.bytes && strip.pool === other.pool && strip.kind === other.kind;
  });
}
function mmRelayout(pool, anchor = null) {
  const width = pool.width = Math.max(pool.scroller.clientWidth || pool.width || 0, 160);
  pool.fitted = mmFit(pool.moment, pool.groups, width, mmWantedHeight(pool));
  pool.layout = mmLayout(pool.moment, pool.groups, width, pool.fitted / pool.zoom);
  pool.height = Math.max(Math.min(pool.layout.height, MM_HEIGHT), MM_MIN_HEIGHT);
  pool.scroller.style.height = `${pool.height}px`;
  pool.stage.style.height = `${pool.height}px`;
  pool.spacer.style.height = `${Math.max(pool.layout.height - pool.height, 0)}px`;
  pool.ratio = Math.min(devicePixelRatio || 1, 2);
  for (const canvas of [pool.canvas, pool.over]) {
    canvas.width = Math.floor(width * pool.ratio);
    canvas.height = Math.floor(pool.height * pool.ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${pool.height}px`;
  }
  if (anchor) {
    const [box] = mmBoxes(pool.moment, pool.layout, anchor.hit);
    if (box) pool.scroller.scrollTop = box.y - anchor.y;
  }
  mmPaint(pool);
}
function mmWantedHeight(pool) {
  const { moment, groups } = pool;
  pool.numLines = Math.max(pool.numLines, Math.ceil(moment.lives.length / 4), moment.strips.length);
  return Math.min(MM_HEIGHT - 4, groups.length * 26 + pool.numLines * MM_LINE);
}
function mmRecolor(pool) {
  if (!pool.moment) return [];
  const { lives } = pool.moment;
  pool.coloring = mmColoring(pool.data, pool.moment, pool.color, pool.theme);
  pool.codes = Uint16Array.from(lives, (life) => pool.coloring.of(life));
  pool.isDim = pool.isDimmed ? Uint8Array.from(lives, (life) => pool.isDimmed(life) ? 1 : 0) : null;
  mmPaint(pool);
  return pool.coloring.legend;
}
function mmPaint(pool) {
  if (pool.pending) return;
  pool.pending = requestAnimationFrame(() => {
    pool.pending = 0;
    if (pool.layout && pool.coloring && pool.codes.length === pool.moment.lives.length) mmPaintNow(pool);
  });
}
function mmPaintNow(pool) {
  const began = performance.now();
  const style = getComputedStyle(pool.canvas);
  const top = pool.scroller.scrollTop;
  mmDraw(pool.canvas.getContext("2d"), { ...pool, top, ink: style.color, font: style.fontFamily });
  mmPaintOver(pool);
  pool.script.push(performance.now() - began);
  if (pool.script.length > 2e3) pool.script.splice(0, 1e3);
}
function mmPaintOver(pool) {
  const context = pool.over.getContext("2d");
  const top = pool.scroller.scrollTop;
  context.setTransform(pool.ratio, 0, 0, pool.ratio, 0, 0);
  context.clearRect(0, 0, pool.width, pool.height);
  for (const [hit, width] of [[pool.hover, 1.5], [pool.chosen, 2.5]]) {
    if (!hit || hit.strip >= pool.moment.strips.length) continue;
    context.strokeStyle = getComputedStyle(pool.canvas).color;
    context.lineWidth = width;
    for (const box of mmBoxes(pool.moment, pool.layout, hit)) {
      if (box.y + MM_LINE < top || box.y > top + pool.height) continue;
      context.strokeRect(box.x - 0.5, box.y - top - 0.5, Math.max(box.width, 2) + 1, box.height + 1);
    }
  }
}
function mmZoom(pool, factor, point) {
  if (!pool.moment) return;
  const { layout, scroller } = pool;
  const y = point ? point.y : pool.height / 3;
  const hit = mmHit(pool.data, pool.moment, layout, point ? point.x : 1, y + scroller.scrollTop);
  const most = Math.max(MM_MAX_LINES / Math.max(layout.lines.length, 1) * pool.zoom, 1);
  pool.zoom = Math.min(Math.max(pool.zoom * factor, 1), most);
  pool.tip.hidden = true;
  mmRelayout(pool, hit && { hit: { ...hit, bytes: Math.max(hit.bytes, 1) }, y });
}
function mmListen(pool) {
  const { canvas, scroller } = pool;
  const pointOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const hitOf = (point) => mmHit(pool.data, pool.moment, pool.layout, point.x, point.y + scroller.scrollTop);
  scroller.addEventListener("scroll", () => mmPaint(pool));
  scroller.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || event.metaKey) || !pool.moment) return;
    event.preventDefault();
    mmZoom(pool, Math.exp(-event.deltaY / 200), pointOf(event));
  }, { passive: false });
  canvas.addEventListener("pointermove", (event) => {
    if (!pool.moment) return;
    const point = pointOf(event);
    mmHover(pool, hitOf(point), point);
  });
  canvas.addEventListener("pointerleave", () => mmHover(pool, null));
  canvas.addEventListener("click", (event) => {
    if (pool.moment) mmChoose(pool, hitOf(pointOf(event)), false);
  });
  canvas.addEventListener("keydown", (event) => mmKey(pool, event, {
    choose: (hit, isScrolled) => mmChoose(pool, hit, isScrolled),
    zoom: (factor, point) => mmZoom(pool, factor, point)
  }));
}
function mmHover(pool, hit, point) {
  const { tip } = pool;
  const isSame = hit && pool.hover && hit.strip === pool.hover.strip && hit.from === pool.hover.from;
  pool.hover = hit;
  tip.hidden = !hit;
  if (hit) {
    if (!isSame) tip.replaceChildren(...pool.options.describe(hit).map((text) => uiElement("div", {}, text)));
    const left = Math.min(point.x + 14, pool.width - tip.offsetWidth - 4);
    const below = point.y + 18 + tip.offsetHeight < pool.height;
    tip.style.left = `${Math.max(left, 0)}px`;
    tip.style.top = `${below ? point.y + 18 : Math.max(point.y - tip.offsetHeight - 8, 0)}px`;
  }
  if (!isSame) mmPaintOver(pool);
}
function mmChoose(pool, hit, isScrolled) {
  pool.chosen = hit;
  if (hit && isScrolled) {
    const [box] = mmBoxes(pool.moment, pool.layout, hit);
    const top = pool.scroller.scrollTop;
    if (box && (box.y < top || box.y + MM_LINE > top + pool.height)) pool.scroller.scrollTop = box.y - pool.height / 2;
  }
  if (pool.moment) mmPaintOver(pool);
  pool.said.textContent = hit ? pool.options.describe(hit).join(", ") : "";
  pool.options.onChoose(hit);
}

// js/memory/map.js
var MM_REST_MS = 80;
async function createMemoryMap(host, bytes, { theme }) {
  const data = await decodeMemory(bytes);
  const state = {
    data,
    host,
    device: mmLargestDevice(data),
    row: data.numRows - 1,
    since: null,
    by: mmFirstColor(data),
    picked: null,
    color: mmFirstColor(data),
    chosen: null,
    node: null
  };
  const parts = state.parts = mmSkeleton(state);
  host.replaceChildren(...parts.all);
  state.curve = mmCreateCurve(parts.curve, data, { theme, onMoment: (row, since) => mmSetMoment(state, row, since) });
  state.pool = mmCreatePool(parts.map, data, {
    theme,
    color: state.color,
    describe: (hit) => mmDescribe(data, state.moment, hit),
    onChoose: (hit) => mmChosen(state, hit)
  });
  state.flame = mmCreateFlame(parts.flame, data, { theme, onZoom: (isInside) => mmPickFlame(state, isInside) });
  mmSetDevice(state, state.device);
  return {
    data,
    get moment() {
      return state.moment;
    },
    get chosen() {
      return state.chosen;
    },
    get since() {
      return state.since;
    },
    pool: state.pool,
    curve: state.curve,
    flame: state.flame,
    showMoment: (row, since = null) => mmSetMoment(state, row, since),
    // A stretch of time in ns from `origin` (text), as the timeline selects it: what it made and what stayed of that.
    showStretch([from, to], origin) {
      if (!data.clock) return;
      const shift = Number(BigInt(origin) - BigInt(data.header.t0));
      const [since, row] = [from, to].map((ns) => mmRowAtTime(data, ns + shift));
      mmSetMoment(state, row, since === row ? null : since);
    },
    showDevice: (k) => mmSetDevice(state, k),
    setColor: (mode) => mmSetColor(state, mode),
    setTheme(name) {
      state.curve.setTheme(name);
      mmLegend(state, state.pool.setTheme(name));
      state.flame.setTheme(name);
    },
    resize() {
      for (const view of [state.curve, state.pool, state.flame]) view.resize();
    },
    destroy() {
      cancelAnimationFrame(state.pending);
      clearTimeout(state.settling);
      for (const view of [state.curve, state.pool, state.flame]) view.destroy();
      host.replaceChildren();
    }
  };
}
function mmLargestDevice(data) {
  const { devices } = data.header;
  return devices.reduce((best, one, k) => one.reserved_bytes > devices[best].reserved_bytes ? k : best, 0);
}
function mmFirstColor(data) {
  return data.lives.category.some((code) => code > 0) || !data.stacks.n ? "category" : "stack";
}
function mmSkeleton(state) {
  const { data } = state;
  const { devices, hidden } = data.header;
  const parts = {
    curve: uiElement("div", { class: "mm-curve" }),
    map: uiElement("div", { class: "mm-map" }),
    details: uiElement("aside", { class: "mm-details", "aria-label": "Chosen block", hidden: true }),
    moment: uiElement("p", { class: "mm-moment", "aria-live": "polite" }),
    legend: uiElement("p", { class: "mm-legend" }),
    bar: uiElement("div", { class: "mm-fragmentation" }),
    holders: uiElement("div", { class: "mm-holders" }),
    flame: uiElement("div", { class: "mm-flame" })
  };
  const deviceChoice = parts.devices = mmChoice("Device", devices.map(({ label }, k) => [String(k), label]), String(state.device), (k) => mmSetDevice(state, Number(k)));
  const axis = mmChoice("Axis", [["time", "time"], ["action", "actions"]], "time", (key) => state.curve.setAxis(key === "time"));
  const jump = uiElement(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Moment" },
    mmButton("At the peak", "Show the moment of the peak", () => mmSetMoment(state, state.peak.row, null)),
    mmButton("At the end", "Show the last moment", () => mmSetMoment(state, data.numRows - 1, null))
  );
  const zoom = uiElement(
    "div",
    { class: "mm-choice", role: "group", "aria-label": "Zoom of the map" },
    mmButton("−", "Zoom out", () => state.pool.zoomBy(1 / 1.6)),
    mmButton("+", "Zoom in", () => state.pool.zoomBy(1.6)),
    mmButton("fit", "Show all", () => state.pool.fit())
  );
  const colors = parts.colors = mmChoice("Colour", Object.entries(MM_COLORS).map(([key, text]) => [key, text.toLowerCase()]), state.color, (mode) => mmSetColor(state, mode));
  const by = mmChoice("By", mmGroupings(data), state.by, (key) => mmSetBy(state, key));
  const hasHistory = data.numRows > 0;
  const note = hidden.num ? uiElement(
    "p",
    { class: "cl-hint" },
    `${uiPlural(hidden.num, "small allocation")} (${uiSize(hidden.bytes)} together) are in the curve and not in the map.`
  ) : null;
  parts.all = [
    devices.length > 1 ? deviceChoice : null,
    hasHistory ? uiElement("div", { class: "mm-tools" }, mmSeriesLegend(), data.clock ? axis : null, jump) : null,
    hasHistory ? parts.curve : null,
    hasHistory ? uiElement("p", { class: "cl-hint" }, "Click or drag along the curve to see what was there then.") : null,
    parts.moment,
    note,
    parts.bar,
    uiElement("div", { class: "mm-tools" }, colors, zoom),
    parts.legend,
    uiElement("div", { class: "mm-columns" }, parts.map, parts.details),
    uiElement("div", { class: "mm-tools" }, uiElement("h4", {}, "Who holds it"), by),
    parts.holders,
    data.stacks.n ? uiElement("h4", {}, "Bytes by call stack") : null,
    data.stacks.n ? parts.flame : null
  ].filter(Boolean);
  return parts;
}
function mmSetDevice(state, device) {
  const { data } = state;
  state.device = device;
  state.parts.devices.mark(String(device));
  state.picked = null;
  if (data.numRows) {
    const curves = mmCurves(data, device);
    const row = mmPeakRow(curves.allocated);
    state.peak = { row, bytes: curves.allocated[row + 1] };
    const { index } = data.header.devices[device];
    state.curve.show(curves, state.peak, data.header.marks.filter((mark) => mark.device === null || mark.device === index));
  }
  mmSetMoment(state, state.row, state.since);
}
function mmSetMoment(state, row, since) {
  state.row = row;
  state.since = since;
  if (state.data.numRows) state.curve.setMoment(row, since);
  if (!state.moment) {
    mmShowNow(state);
    return;
  }
  cancelAnimationFrame(state.pending);
  state.pending = requestAnimationFrame(() => mmShowNow(state));
}
function mmShowNow(state) {
  const { data, row, since, parts } = state;
  state.moment = mmMoment(data, state.device, row);
  const counted = state.counted = since === null ? state.moment.lives : state.moment.lives.filter((life) => data.lives.alloc[life] > since);
  parts.moment.replaceChildren(...mmMomentWords(state));
  mmRenderFragmentation(parts.bar, state.moment);
  mmLegend(state, state.pool.show(state.moment));
  mmDim(state);
  clearTimeout(state.settling);
  state.settling = setTimeout(() => mmSettle(state), state.isSettled ? MM_REST_MS : 0);
  const { chosen } = state;
  const isThere = chosen && chosen.life >= 0 && state.moment.lives.includes(chosen.life);
  if (chosen) state.pool.choose(isThere ? mmHitOfLife(state, chosen.life) : null);
}
function mmSettle(state) {
  state.isSettled = true;
  mmShowHolders(state);
  state.flame.show(state.counted);
}
function mmHitOfLife(state, life) {
  const { lives } = state.data;
  const k = state.moment.lives.indexOf(life);
  const strip = state.moment.strips.findIndex(({ first, end }) => first <= k && k < end);
  return strip < 0 ? null : { strip, life, from: lives.addr[life], bytes: lives.bytes[life] };
}
function mmMomentWords(state) {
  const { data, row, since, moment, counted } = state;
  const { sums } = moment;
  const isEnd = row === data.numRows - 1;
  const isPeak = state.peak && row === state.peak.row;
  const when = isPeak ? `At the peak (${mmMomentText(data, row)})` : isEnd ? "At the end" : row < 0 ? "Before the first action" : `After ${mmMomentText(data, row)}`;
  const held = `${uiSize(sums.allocated)} allocated in ${uiPlural(moment.lives.length, "block")}, ${uiSize(sums.reserved)} reserved in ${uiPlural(moment.strips.length, "segment")}`;
  const pending = sums.pending ? `, ${uiSize(sums.pending)} freed and waiting for a stream` : "";
  const outside = moment.outside ? `; ${uiPlural(moment.outside, "block")} in no known segment` : "";
  const bytes = counted.reduce((sum, life) => sum + data.lives.bytes[life], 0);
  const made = since === null ? "" : ` ${uiSize(bytes)} of it in ${uiPlural(counted.length, "block")} came since ${mmMomentText(data, since)} and stayed; the rest is pale.`;
  return [uiElement("strong", {}, `${when}: `), `${held}${pending}${outside}.${made}`];
}
function mmShowHolders(state) {
  mmRenderHolders(state.parts.holders, state.data, state.counted, state, (key) => {
    state.picked = key;
    mmShowHolders(state);
    mmDim(state);
  });
}
function mmDim(state) {
  if (!state.moment) return;
  const { lives } = state.data;
  const { since, picked, by, node } = state;
  if (since === null && picked === null && !node) state.pool.setDim(null);
  else {
    state.pool.setDim((life) => since !== null && lives.alloc[life] <= since || picked !== null && mmKeyOf(state.data, life, by) !== picked || node !== null && !node(lives.stack[life]));
  }
}
function mmPickFlame(state, isInside) {
  state.node = isInside;
  mmDim(state);
}
function mmSetBy(state, by) {
  state.by = by;
  state.picked = null;
  mmShowHolders(state);
  mmDim(state);
}
function mmSetColor(state, mode) {
  state.color = mode;
  state.parts.colors.mark(mode);
  mmLegend(state, state.pool.setColor(mode));
}
function mmLegend(state, legend) {
  const free = uiElement("span", { class: "mm-key" }, uiElement("i", { class: "mm-free" }), "free");
  const waits = state.moment.sums.pending ? [uiElement("span", { class: "mm-key" }, uiElement("i", { class: "mm-waits" }), "waits for a stream")] : [];
  state.parts.legend.replaceChildren(...legend.map(({ css, label }) => {
    const swatch = uiElement("i", {});
    swatch.style.background = css;
    return uiElement("span", { class: "mm-key", title: label }, swatch, label);
  }), ...waits, free);
}
function mmChosen(state, hit) {
  state.chosen = hit;
  const was = state.parts.details.hidden;
  mmRenderDetails(state.parts.details, state.data, state.moment, hit);
  if (was !== state.parts.details.hidden) state.pool.resize();
}

// js/devices/metrics.js
var METRICS_SVG = "http://www.w3.org/2000/svg";
var METRICS_ROW = 44;
var METRICS_GAP = 8;
var METRICS_MAX_POINTS = 2e3;
var METRICS_LINES = {
  light: ["#0b62c4", "#b35c00", "#6f42c1", "#00796b", "#b02f78", "#5a7a0a", "#a3301f", "#4f6673"],
  dark: ["#6cb6ff", "#f0a050", "#c4a5ff", "#5fd0c0", "#f08cc4", "#b5d35a", "#ff9a8a", "#a9bfca"]
};
function metricText({ unit, column }, value) {
  if (value === void 0 || Number.isNaN(value)) return "-";
  if (column.endsWith("_bytes")) return uiSize(value);
  return unit === "%" ? uiPercent(value) : `${Math.round(value).toLocaleString("en-US")} ${unit}`;
}
function metricsNode(tag, attributes = {}, ...children) {
  const node = document.createElementNS(METRICS_SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
  node.append(...children);
  return node;
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
function metricsPath({ ts, values }, column, [t0, t1], x, y) {
  const value = values[column];
  const from = Math.max(readingAt(ts, t0), 0);
  const to = Math.min(readingAt(ts, t1) + 2, ts.length);
  const stride = Math.max(1, Math.ceil((to - from) / METRICS_MAX_POINTS));
  let path = "";
  for (let i = from; i < to; i += stride) {
    let best = i;
    for (let k = i; k < Math.min(i + stride, to); k++) if (value[k] > value[best] || Number.isNaN(value[best])) best = k;
    if (Number.isNaN(value[best])) continue;
    path += `${path ? "L" : "M"}${x(ts[best]).toFixed(1)} ${y(value[best]).toFixed(1)}`;
  }
  return path;
}
function createMetrics(host, devices, gauges, { theme, view }) {
  const shown = { theme, view, width: 0 };
  const known = gauges.filter(({ column }) => devices.some(({ values }) => values[column].some((v) => !Number.isNaN(v))));
  const largest = known.map(({ column, full }) => full ?? Math.max(...devices.map(({ values }) => values[column].reduce((most, v) => v > most ? v : most, 0)), 1e-9));
  const legend = uiElement("p", { class: "cl-metrics-legend" });
  const plot = metricsNode("svg", { class: "cl-metrics-plot", role: "img", "aria-label": "Readings of the GPUs over time" });
  const tip = uiElement("p", { class: "cl-metrics-tip cl-hint", "aria-live": "off" });
  host.replaceChildren(legend, plot, tip);
  const height = known.length * (METRICS_ROW + METRICS_GAP);
  const cursor = metricsNode("path", { class: "cl-metrics-cursor", fill: "none" });
  const scale = () => {
    const width = shown.width = Math.max(host.clientWidth || shown.width, 200);
    const gutter = plotGutter(width);
    const span = shown.view[1] - shown.view[0];
    return { width, gutter, plot: width - gutter - 1, x: (t) => gutter + (t - shown.view[0]) / span * (width - gutter - 1) };
  };
  function draw() {
    const { width, gutter, plot: inner, x } = scale();
    const lines = METRICS_LINES[shown.theme];
    legend.replaceChildren(...devices.length > 1 ? devices.map(({ label }, k) => uiElement("span", { style: `color:${lines[k % lines.length]}` }, label)) : []);
    const clip = metricsNode(
      "clipPath",
      { id: `cl-metrics-${metricsId}` },
      metricsNode("rect", { x: gutter, y: 0, width: inner, height })
    );
    const rows = known.map((gauge, row) => {
      const top = row * (METRICS_ROW + METRICS_GAP);
      const y = (value) => top + METRICS_ROW - (METRICS_ROW - 3) * Math.min(value / largest[row], 1);
      const peak = Math.max(...devices.map(({ values }) => values[gauge.column].reduce((m, v) => v > m ? v : m, 0)));
      return metricsNode(
        "g",
        {},
        metricsNode("text", { x: 0, y: top + 16 }, gauge.title),
        metricsNode("text", { x: 0, y: top + 31, class: "cl-metrics-muted" }, `up to ${metricText(gauge, peak)}`),
        metricsNode("path", { d: `M${gutter} ${top + METRICS_ROW}H${width - 1}`, class: "cl-metrics-base" }),
        metricsNode("g", { "clip-path": `url(#cl-metrics-${metricsId})` }, ...devices.map((device, k) => metricsNode("path", {
          d: metricsPath(device, gauge.column, shown.view, x, y),
          fill: "none",
          stroke: lines[k % lines.length],
          "stroke-width": 1.4
        })))
      );
    });
    plot.setAttribute("width", width);
    plot.setAttribute("height", height);
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.replaceChildren(clip, ...rows, cursor);
  }
  const metricsId = `${Math.random().toString(36).slice(2)}`;
  function point(event) {
    const { gutter, plot: inner } = scale();
    const at = event.clientX - plot.getBoundingClientRect().left;
    if (at < gutter || at > gutter + inner) return leave();
    const t = shown.view[0] + (at - gutter) / inner * (shown.view[1] - shown.view[0]);
    cursor.setAttribute("d", `M${at.toFixed(1)} 0V${height}`);
    tip.textContent = [uiDuration(t), ...devices.map((device) => deviceAt(device, t))].filter(Boolean).join(" · ");
    return void 0;
  }
  function deviceAt({ label, ts, values, slowed, reasons }, t) {
    const i = readingAt(ts, t);
    if (i < 0) return "";
    const texts = known.map((gauge) => metricText(gauge, values[gauge.column][i])).join(", ");
    return `${devices.length > 1 ? `${label}: ` : ""}${texts}${slowed[i] ? `, held down by ${reasons[slowed[i]]}` : ""}`;
  }
  function leave() {
    cursor.removeAttribute("d");
    tip.textContent = "";
  }
  plot.addEventListener("pointermove", point);
  plot.addEventListener("pointerleave", leave);
  draw();
  return {
    setView(next) {
      shown.view = next;
      draw();
    },
    setTheme(name) {
      shown.theme = name;
      draw();
    },
    resize: draw,
    destroy: () => host.replaceChildren()
  };
}

// js/shared/libraries.js
async function inflate(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
function sharedLibraries() {
  const key = /* @__PURE__ */ Symbol.for("cudalens.libraries");
  globalThis[key] ??= /* @__PURE__ */ new Map();
  return globalThis[key];
}
function loadLibrary(name, version, fetchBytes) {
  const libraries = sharedLibraries();
  const key = `${name}@${version}`;
  if (!libraries.has(key)) {
    const loading = fetchBytes(name).then(inflate).then(importBytes);
    loading.catch(() => libraries.delete(key));
    libraries.set(key, loading);
  }
  return libraries.get(key);
}
var CLAIMED = ["$", "moduleName"];
async function importBytes(bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type: "text/javascript" }));
  const before = CLAIMED.map((name) => Object.getOwnPropertyDescriptor(globalThis, name));
  try {
    const module = await import(url);
    return "default" in module ? module : { default: globalThis.moduleName };
  } finally {
    URL.revokeObjectURL(url);
    CLAIMED.forEach((name, i) => {
      if (before[i]) Object.defineProperty(globalThis, name, before[i]);
      else delete globalThis[name];
    });
  }
}

// js/races/races.js
var RACE_COPIED_MS = 1500;
var RACE_FILTER_FROM = 4;
function createRaces(host, model, { onChoose } = {}) {
  const state = { model, onChoose, kind: null, at: 0, shown: model.races, cards: /* @__PURE__ */ new Map(), items: [] };
  state.list = uiElement("ul", {
    class: "cl-race-list",
    role: "listbox",
    tabindex: "0",
    "aria-label": "Races, worst first",
    "data-lm-suppress-shortcuts": "true"
  });
  state.card = uiElement("div", { class: "cl-race-host", "aria-live": "polite" });
  state.tools = uiElement("div", { class: "cl-race-tools", role: "group", "aria-label": "Kinds of races" });
  const isOne = model.races.length === 1;
  const body = isOne ? state.card : uiElement("div", { class: "cl-race-split" }, state.list, state.card);
  if (!isOne) {
    fillRaceTools(state);
    listenToRaceList(state);
  }
  host.replaceChildren(...state.tools.childElementCount ? [state.tools] : [], body);
  fillRaceList(state);
  return {
    choose: (row) => chooseRaceRow(state, row),
    chosen: () => state.shown[state.at].row,
    setTheme() {
    },
    destroy: () => host.replaceChildren()
  };
}
function fillRaceTools(state) {
  const counts = /* @__PURE__ */ new Map();
  const titles = /* @__PURE__ */ new Map();
  for (const { kind, title } of state.model.races) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
    titles.set(kind, title);
  }
  const button = (kind, text) => {
    const press = () => {
      state.kind = kind;
      for (const other of state.tools.querySelectorAll("button")) other.setAttribute("aria-pressed", String(other === node));
      showRaceKind(state);
    };
    const node = uiElement("button", { type: "button", class: "cl-button", "aria-pressed": String(kind === state.kind), onclick: press }, text);
    return node;
  };
  if (counts.size > 1 && state.model.races.length >= RACE_FILTER_FROM) {
    const kinds = [...counts].map(([kind, number]) => button(kind, `${titles.get(kind)} ${uiCount(number)}`));
    state.tools.append(button(null, `all ${uiCount(state.model.races.length)}`), ...kinds);
  }
  if (state.model.more) {
    state.tools.append(uiElement("span", { class: "cl-hint" }, `and ${uiPlural(state.model.more, "race")} more in trace.races`));
  }
}
function showRaceKind(state) {
  const before = state.shown[state.at];
  state.shown = state.model.races.filter((race) => state.kind === null || race.kind === state.kind);
  state.at = Math.max(0, state.shown.indexOf(before));
  fillRaceList(state);
}
function fillRaceList(state) {
  state.items = state.shown.map((race, k) => raceItem(state, race, k));
  state.list.replaceChildren(...state.items);
  showRaceCard(state, state.at);
}
function raceItem(state, race, k) {
  const number = state.model.races.indexOf(race) + 1;
  return uiElement(
    "li",
    { role: "option", id: raceItemId(state, k), "aria-selected": "false", onclick: () => pickRace(state, k) },
    uiElement("b", {}, `${uiCount(number)}. ${race.title}`),
    ` of ${race.tensor}, ${race.times}`,
    ...race.places.map((place) => uiElement("small", {}, place))
  );
}
function raceItemId(state, k) {
  state.id ??= `cl-race-${Math.random().toString(36).slice(2)}`;
  return `${state.id}-${k}`;
}
function showRaceCard(state, at) {
  state.items[state.at]?.setAttribute("aria-selected", "false");
  state.at = at;
  const race = state.shown[at];
  const item = state.items[at];
  item.setAttribute("aria-selected", "true");
  state.list.setAttribute("aria-activedescendant", item.id);
  keepInSight(state.list, item);
  if (!state.cards.has(race)) state.cards.set(race, raceCard(race));
  state.card.replaceChildren(state.cards.get(race));
}
function keepInSight(list, item) {
  const top = item.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + item.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + item.offsetHeight - list.clientHeight;
}
function pickRace(state, at) {
  showRaceCard(state, at);
  state.onChoose?.(state.shown[at]);
}
function chooseRaceRow(state, row) {
  if (!state.shown.some((race) => race.row === row)) {
    state.kind = null;
    for (const [k, other] of [...state.tools.querySelectorAll("button")].entries()) other.setAttribute("aria-pressed", String(k === 0));
    showRaceKind(state);
  }
  const at = state.shown.findIndex((race) => race.row === row);
  if (at >= 0) showRaceCard(state, at);
}
var RACE_PAGE = 10;
function listenToRaceList(state) {
  state.list.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const last = state.shown.length - 1;
    const steps = { ArrowDown: state.at + 1, ArrowUp: state.at - 1, Home: 0, End: last, PageDown: state.at + RACE_PAGE, PageUp: state.at - RACE_PAGE };
    if (!(event.key in steps)) return;
    event.preventDefault();
    event.stopPropagation();
    pickRace(state, Math.min(Math.max(steps[event.key], 0), last));
  });
}
function raceCard(race) {
  const card = buildMarkup(race.card);
  const diff = card.querySelector(".cl-race-diff");
  if (diff) addRaceCopy(diff);
  const values = card.querySelector(":scope > .cl-race-value");
  if (values) addRaceTabs(card, values);
  return card;
}
function addRaceTabs(card, values) {
  const id = `cl-race-tab-${Math.random().toString(36).slice(2)}`;
  const parts = [...card.children].filter((node) => node !== values && !node.matches(".cl-race-head, .cl-race-what"));
  const accesses = uiElement("div", { class: "cl-race-panel" }, ...parts);
  const panels = [accesses, values];
  const tabs = ["Accesses", "Values"].map((text, k) => uiElement("button", {
    type: "button",
    role: "tab",
    id: `${id}-${k}`,
    "data-lm-suppress-shortcuts": "true"
  }, text));
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
  card.append(uiElement("div", { class: "cl-race-tabs", role: "tablist", "aria-label": "What is known of the race" }, ...tabs), accesses, values);
  show(values.querySelector(".cl-value-confirmed") ? 1 : 0);
}
function addRaceCopy(diff) {
  const text = diff.textContent;
  const frame = uiElement("div", { class: "cl-race-copy" });
  const copy = uiElement("button", { type: "button", class: "cl-button", "data-lm-suppress-shortcuts": "true" }, "Copy");
  copy.addEventListener("click", async () => {
    copy.textContent = await copyRaceText(text, diff) ? "Copied" : "Selected: press Ctrl+C";
    setTimeout(() => copy.textContent = "Copy", RACE_COPIED_MS);
  });
  diff.replaceWith(frame);
  frame.append(diff, copy);
}
async function copyRaceText(text, node) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    getSelection().selectAllChildren(node);
    return document.execCommand("copy");
  }
}

// js/app/selection.js
function createSelectionStore() {
  let state = { range: null, event: null, names: null };
  const listeners = /* @__PURE__ */ new Set();
  const store = {
    get: () => state,
    isEmpty: () => state.range === null && state.event === null && state.names === null,
    // `origin` names the panel that made the change, so that it need not be told its own news.
    set(changes, origin) {
      const next = { ...state, ...changes };
      if (next.names !== null && next.names.size === 0) next.names = null;
      if (sameSelection(state, next)) return;
      state = next;
      for (const listener of [...listeners]) listener(state, origin);
    },
    clear: (origin) => store.set({ range: null, event: null, names: null }, origin),
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
function beneath(data, root) {
  const inside = new Uint8Array(data.n);
  inside[root] = 1;
  for (let i = root + 1; i < data.n; i++) if (data.parent[i] >= 0 && inside[data.parent[i]]) inside[i] = 1;
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0 && inside[data.launch[i]]) inside[i] = 1;
  return inside;
}
function selectedMask(data, { range, event, names }) {
  if (range === null && event === null && names === null) return null;
  const mask = event === null ? new Uint8Array(data.n).fill(1) : beneath(data, event);
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

// js/table/aggregate.js
var STEP_NAME = "ProfilerStep*";
var UNCOUNTED_CATS = /* @__PURE__ */ new Set(["Trace", "overhead", "gpu_user_annotation", "cuda_sync"]);
function costBasis(data) {
  const self = Float64Array.from(data.self);
  const head = new Int32Array(data.n);
  for (let i = 0; i < data.n; i++) {
    head[i] = data.flags[i] & PAYLOAD_FLAGS.folded ? head[data.parent[i]] : i;
    if (head[i] !== i) self[head[i]] += data.self[i];
  }
  const group = Uint32Array.from(data.header.names.keys());
  const steps = data.header.step_names;
  for (const id of steps) group[id] = steps[0];
  const device = Uint8Array.from(data.header.lanes, (lane) => +(lane.kind === "device"));
  return { self, group, steps, device };
}
function aggregate(data, basis, mask) {
  const skip = PAYLOAD_FLAGS.folded | PAYLOAD_FLAGS.instant;
  const rows = /* @__PURE__ */ new Map();
  for (let i = 0; i < data.n; i++) {
    if (mask !== null && !mask[i] || data.flags[i] & skip) continue;
    const side = basis.device[data.lane[i]];
    const key = basis.group[data.name[i]] * 2 + side;
    let row = rows.get(key);
    if (row === void 0) rows.set(key, row = emptyRow(data, basis, i, side));
    row.self += basis.self[i];
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
    side,
    cat: data.header.cats[data.cat[i]],
    count: 0,
    total: 0,
    self: 0,
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
  const weight = (row) => UNCOUNTED_CATS.has(row.cat) ? 0 : row.self;
  const whole = [0, 0];
  for (const row of rows) whole[row.side] += weight(row);
  return rows.map(({ spread, ...row }) => ({
    ...row,
    mean: row.total / row.count,
    std: row.count > 1 ? Math.sqrt(spread / (row.count - 1)) : null,
    share: whole[row.side] > 0 ? 100 * weight(row) / whole[row.side] : 0
  }));
}

// js/table/table.js
var TABLE_STYLE = `
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
td .name { display: inline-block; max-width: clamp(12em, calc(100cqw - 700px), 70em); overflow: hidden; text-overflow: ellipsis; vertical-align: bottom; font-family: var(--cl-mono); font-size: 12px; }
td .kind { color: var(--cl-muted); font-size: 12px; }
td .spread { color: var(--cl-muted); }
td .bar { display: inline-block; width: 56px; height: 8px; margin-right: 8px; border-radius: 2px; background: var(--cl-line-soft); vertical-align: middle; overflow: hidden; text-align: left; }
td .bar i { display: block; height: 100%; background: var(--cl-accent); }
:host([data-view="narrow"]) td .bar { display: none; }
:host([data-view="narrow"]) td .name { max-width: clamp(11em, calc(100cqw - 560px), 70em); }
@media print { div.dt-layout-row:not(.dt-layout-table) { display: none !important; } }
`;
var KIND_LABELS = {
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
var showTime = (key) => (_, type, row) => type === "display" ? uiDuration(row[key]) : row[key];
function showMean(_, type, row) {
  if (type !== "display") return row.mean;
  const spread = row.std !== null ? ` <span class="spread">± ${uiDuration(row.std)}</span>` : "";
  return `${uiDuration(row.mean)}${spread}`;
}
function showShare(_, type, row) {
  if (type !== "display") return row.share;
  return `<span class="bar"><i style="width:${row.share.toFixed(1)}%"></i></span>${uiPercent(row.share)}`;
}
function showName(_, type, row) {
  if (type !== "display") return row.name;
  return `<span class="name" title="${uiEscape(row.name)}">${uiEscape(row.name)}</span>`;
}
function showKind(_, type, row) {
  const label = KIND_LABELS[row.cat] ?? row.cat;
  return type === "display" ? `<span class="kind">${uiEscape(label)}</span>` : label;
}
var TABLE_COLUMNS = [
  { title: "Name", data: "name", render: showName },
  { title: "Kind", data: "cat", render: showKind },
  { title: "Count", data: "count", className: "number", render: (_, t, r) => t === "display" ? uiCount(r.count) : r.count },
  { title: "Total", data: "total", className: "number", render: showTime("total") },
  { title: "Self", data: "self", className: "number", render: showTime("self") },
  { title: "Mean ± sd", data: "mean", className: "number", render: showMean },
  { title: "Min", data: "min", className: "number", render: showTime("min") },
  { title: "Max", data: "max", className: "number", render: showTime("max") },
  { title: "Share of self", data: "share", className: "number", render: showShare }
].map((column) => ({ ...column, searchable: column.data === "name" || column.data === "cat", orderSequence: ["desc", "asc"] }));
var TABLE_SHARE = TABLE_COLUMNS.findIndex((column) => column.data === "share");
var TABLE_YIELDS = [[840, ["cat"]], [660, ["min", "max"]]].map(([width, keys]) => [
  width,
  keys.map((key) => TABLE_COLUMNS.findIndex((column) => column.data === key))
]);
var TABLE_SIDES = [["All", null], ["GPU", 1], ["CPU", 0]];
function createTable(host, data, { library, styleSheet, theme, onNames }) {
  const shadow = host.shadowRoot ?? host.attachShadow({ mode: "open" });
  const element = uiElement("table", { class: "display compact", "aria-label": "Costs by name" });
  shadow.replaceChildren(uiElement("style", {}, styleSheet), uiElement("style", {}, TABLE_STYLE), element);
  const DataTable = library.default;
  DataTable.ext.errMode = "throw";
  const basis = costBasis(data);
  const hasBoth = new Set(basis.device).size > 1;
  let rows = [];
  let side = null;
  let chosen = /* @__PURE__ */ new Set();
  const fill = () => table.clear().rows.add(rows.filter((row) => side === null || row.side === side)).draw();
  function sideButtons() {
    const group = uiElement("div", { class: "sides", role: "group", "aria-label": "Where the time went" });
    for (const [label, value] of TABLE_SIDES) {
      const press = () => {
        side = value;
        for (const button of group.children) button.setAttribute("aria-pressed", String(button.textContent === label));
        fill();
      };
      group.append(uiElement("button", { type: "button", "aria-pressed": String(value === side), onclick: press }, label));
    }
    return group;
  }
  const mark = (node, row) => {
    const isChosen = row.ids.some((id) => chosen.has(id));
    node.classList.toggle("chosen", isChosen);
    node.setAttribute("aria-selected", String(isChosen));
    node.tabIndex = 0;
  };
  const table = new DataTable(element, {
    columns: TABLE_COLUMNS,
    data: rows,
    order: [[TABLE_SHARE, "desc"]],
    pageLength: 10,
    lengthMenu: [10, 25, 50, 100, { label: "all", value: -1 }],
    layout: { topStart: hasBoth ? [sideButtons, "info"] : "info", topEnd: "search", bottomStart: "pageLength", bottomEnd: "paging" },
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
    deferRender: true,
    rowCallback: mark
  });
  const toggle = (event) => {
    const node = event.composedPath().find((n) => n.tagName === "TR" && n.parentNode?.tagName === "TBODY");
    const row = node && table.row(node).data();
    if (!row) return;
    const isIn = row.ids.every((id) => chosen.has(id));
    const isAlone = isIn && chosen.size === row.ids.length;
    const many = event.ctrlKey || event.metaKey || event.shiftKey;
    const next = new Set(many ? chosen : []);
    for (const id of row.ids) {
      if (many && isIn) next.delete(id);
      else if (many || !isAlone) next.add(id);
    }
    onNames(next.size ? next : null);
  };
  element.addEventListener("click", toggle);
  element.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.composedPath()[0].tagName === "TR") {
      event.preventDefault();
      toggle(event);
    }
  });
  const api = {
    update(mask) {
      rows = aggregate(data, basis, mask);
      fill();
    },
    choose(names) {
      chosen = names ?? /* @__PURE__ */ new Set();
      table.rows({ page: "current" }).every(function markRow() {
        mark(this.node(), this.data());
      });
    },
    setTheme: (name) => host.classList.toggle("dark", name === "dark"),
    rows: () => rows,
    destroy() {
      observer.disconnect();
      table.destroy();
      shadow.replaceChildren();
    }
  };
  const fit = () => {
    const width = host.clientWidth;
    if (width === 0 || width === fitted) return;
    fitted = width;
    host.setAttribute("data-view", width < TABLE_YIELDS[0][0] ? "narrow" : "wide");
    for (const [least, columns] of TABLE_YIELDS) table.columns(columns).visible(width >= least);
  };
  let fitted = 0;
  const observer = new ResizeObserver(fit);
  observer.observe(host);
  fit();
  api.setTheme(theme);
  return api;
}

// js/timeline/lod.js
var LOD_FANOUT = 16;
var LOD_MAX_ROWS = 512;
var LOD_FAINTEST = 88;
function assignRows(data) {
  const { start, dur, n, header } = data;
  const row = new Uint16Array(n);
  const heights = [];
  const until = new Float64Array(LOD_MAX_ROWS);
  let i = 0;
  for (const lane of header.lanes) {
    let top = -1;
    let height = 0;
    until.fill(-Infinity);
    for (const stop = i + lane.count; i < stop; i++) {
      const s = start[i];
      const e = s + dur[i];
      while (top >= 0 && until[top] <= s) top--;
      let r = top;
      while (r >= 0 && !(until[r] > s && until[r] >= e)) r--;
      r++;
      while (r < LOD_MAX_ROWS && until[r] > s) r++;
      if (r >= LOD_MAX_ROWS) {
        row[i] = 65535;
        continue;
      }
      row[i] = r;
      until[r] = e;
      if (e > s && r > top) top = r;
      if (r >= height) height = r + 1;
    }
    heights.push(Math.max(height, 1));
  }
  return { row, heights };
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
        if (shadeOf[data.name[i]] < 0) shadeOf[data.name[i]] = themeHash(name) % THEME_SHADES;
        found = themeGroup(cats[data.cat[i]], name) * THEME_SHADES + shadeOf[data.name[i]];
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
  const laneRow = new Uint32Array(rows.heights.length + 1);
  rows.heights.forEach((height, l) => laneRow[l + 1] = laneRow[l] + height);
  const first = new Uint32Array(laneRow[rows.heights.length] + 1);
  const isOut = (i) => rows.row[i] === 65535 || keep !== null && !keep[i];
  for (let i = 0; i < n; i++) if (!isOut(i)) first[laneRow[lane[i]] + rows.row[i] + 1]++;
  for (let r = 1; r < first.length; r++) first[r] += first[r - 1];
  const m = first[first.length - 1];
  const index = { first, laneRow, at: new Uint32Array(m), s: new Float64Array(m), e: new Float64Array(m) };
  index.sum = new Float64Array(m + 1);
  index.tone = new Uint8Array(m);
  const next = first.slice();
  for (let i = 0; i < n; i++) {
    if (isOut(i)) continue;
    const p = next[laneRow[lane[i]] + rows.row[i]]++;
    index.at[p] = i;
    index.s[p] = start[i];
    index.e[p] = start[i] + dur[i];
    index.tone[p] = tone[i];
  }
  for (let p = 0; p < m; p++) index.sum[p + 1] = index.sum[p] + index.e[p] - index.s[p];
  index.maxima = buildMaxima(index);
  return index;
}
function buildMaxima({ s, e }) {
  const levels = [];
  let below = null;
  for (let size = s.length; size > LOD_FANOUT; ) {
    const num = Math.ceil(size / LOD_FANOUT);
    const level = new Uint32Array(num);
    for (let b = 0; b < num; b++) {
      let best = -1;
      let length = -1;
      for (let k = b * LOD_FANOUT; k < Math.min(size, (b + 1) * LOD_FANOUT); k++) {
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
    const isLast = level + 1 >= maxima.length || b - a <= LOD_FANOUT;
    while (a < b && (isLast || a % LOD_FANOUT)) look(at === null ? a++ : at[a++]);
    while (b > a && b % LOD_FANOUT) look(at === null ? --b : at[--b]);
    a /= LOD_FANOUT;
    b /= LOD_FANOUT;
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
function paintRow(index, r, t0, w, out, base, width, pixels, alpha, wide, wideFrom) {
  const { s, e, sum, tone } = index;
  const end = index.first[r + 1];
  const scale = 1 / w;
  const t1 = t0 + width * w;
  const full = Math.round(255 * alpha) << 24 >>> 0;
  const edge = Math.round(150 * alpha) << 24 >>> 0;
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
      out.fill((pixels[tone[p]] | full) >>> 0, base + x, base + stop);
      if (wide !== null && to - from >= wideFrom) wide(p, from, to);
      if (to - from >= 4 && stop < width) out[base + stop - 1] = (pixels[tone[p]] | edge) >>> 0;
      x = stop;
      if (e[p] <= t0 + x * w) p++;
      continue;
    }
    const tq = tx + w;
    const q = placeAfter(s, p, end, tq);
    const clipped = Math.max(0, tx - s[p]) + Math.max(0, e[q - 1] - tq);
    const busy = (sum[q] - sum[p] - clipped) * scale;
    const best = q - p === 1 ? p : longestIn(index, p, q);
    const strength = LOD_FAINTEST + (255 - LOD_FAINTEST) * (busy > 1 ? 1 : busy);
    out[base + x] = (pixels[tone[best]] | Math.round(strength * alpha) << 24) >>> 0;
    x++;
    p = e[q - 1] > tq ? q - 1 : q;
  }
}
function addBusy(index, r, t0, t1, out) {
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

// js/timeline/dom.js
var TL_STYLE = `
.cltl { --tl-bg: #fff; --tl-text: #1b1f24; position: relative; color: var(--tl-text); background: var(--tl-bg);
  font: 12px/1.4 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; text-align: left; }
.cltl * { box-sizing: border-box; }
.cltl-tools { display: flex; flex-wrap: wrap; gap: 6px 10px; align-items: center; padding: 0 0 6px; }
.cltl-tools button, .cltl-search { font: inherit; color: inherit; background: var(--tl-field);
  border: 1px solid var(--tl-line); border-radius: 6px; height: 26px; }
.cltl-tools button { padding: 0 9px; cursor: pointer; }
.cltl-tools button:hover { background: var(--tl-soft); }
.cltl-search { padding: 0 8px; width: 190px; }
.cltl-group { display: inline-flex; gap: 4px; align-items: center; }
.cltl-matches { color: var(--tl-muted); min-width: 4em; font-variant-numeric: tabular-nums; }
.cltl-legend { display: flex; flex-wrap: wrap; gap: 2px 12px; margin: 0 0 0 auto; padding: 0; list-style: none; color: var(--tl-muted); }
.cltl-legend li { display: inline-flex; align-items: center; gap: 5px; margin: 0; }
.cltl-legend i { width: 11px; height: 11px; border-radius: 2px; }
.cltl-frame { position: relative; overflow: hidden auto; border: 1px solid var(--tl-line); border-radius: 8px;
  resize: vertical; background: var(--tl-bg); overscroll-behavior-x: contain; scrollbar-width: thin; }
.cltl-stage { position: relative; }
.cltl-canvas { position: sticky; top: 0; left: 0; display: block; touch-action: pan-y; cursor: default; outline: none; }
.cltl-frame:has(.cltl-canvas:focus-visible) { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.cltl :is(button, input):focus-visible { outline: 2px solid var(--tl-accent); outline-offset: 1px; }
.cltl-tip { position: absolute; z-index: 5; max-width: min(440px, 90%); padding: 6px 9px; border-radius: 6px; pointer-events: none;
  background: var(--tl-tip); color: var(--tl-tip-text); box-shadow: 0 2px 8px #0005; overflow-wrap: anywhere; }
.cltl-tip b { display: block; font-weight: 600; }
.cltl-tip[hidden] { display: none; }
.cltl-hint { color: var(--tl-muted); padding: 4px 2px 0; font-size: 11.5px; }
.cltl-hint span { white-space: nowrap; margin-right: 8px; }
.cltl-hint kbd { font: inherit; border: 1px solid var(--tl-line); border-radius: 4px; padding: 0 4px; }
.cltl-spoken { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
`;
function adoptTimelineStyle(root) {
  const scope = root.getRootNode();
  const key = /* @__PURE__ */ Symbol.for("cudalens.timeline.style");
  const target = scope instanceof ShadowRoot ? scope : document;
  if (target[key]) return;
  target[key] = new CSSStyleSheet();
  target[key].replaceSync(TL_STYLE);
  target.adoptedStyleSheets = [...target.adoptedStyleSheets, target[key]];
}
var TL_HELP = "W and S zoom, A and D pan, arrow keys move along the lanes. Enter steps to an event; then arrow keys go from event to event, Enter selects, L follows a launch arrow. F fits, slash searches, C folds a lane, Escape goes back.";
var TL_KEYS = [
  ["wheel", "zoom, after a click"],
  ["Ctrl+wheel", "zoom"],
  ["drag", "pan"],
  ["Shift+drag", "select time"],
  ["W A S D", "move"],
  ["F", "fit"],
  ["/", "search"],
  ["Enter", "step through events"]
];
function buildTimelineDom(root) {
  adoptTimelineStyle(root);
  const button = (label, text, tip) => uiElement("button", { type: "button", "aria-label": label, title: tip ?? label }, text);
  const dom = {
    search: uiElement("input", {
      class: "cltl-search",
      type: "search",
      placeholder: "Search names  ( / )",
      "aria-label": "Search event names",
      autocomplete: "off",
      spellcheck: "false"
    }),
    matches: uiElement("span", { class: "cltl-matches", role: "status" }),
    previous: button("Previous match", "‹", "Previous match (Shift+Enter)"),
    next: button("Next match", "›", "Next match (Enter)"),
    zoomIn: button("Zoom in", "+", "Zoom in (W)"),
    zoomOut: button("Zoom out", "−", "Zoom out (S)"),
    fit: button("Fit the whole trace", "Fit", "Show the whole trace (F)"),
    legend: uiElement("ul", { class: "cltl-legend", "aria-label": "Colours" }),
    canvas: uiElement("canvas", {
      class: "cltl-canvas",
      tabindex: "0",
      role: "application",
      "aria-roledescription": "timeline",
      "aria-label": "Timeline of the trace"
    }),
    stage: uiElement("div", { class: "cltl-stage" }),
    tip: uiElement("div", { class: "cltl-tip", hidden: true, "aria-hidden": "true" }),
    spoken: uiElement("div", { class: "cltl-spoken", "aria-live": "polite" }),
    help: uiElement("div", { class: "cltl-spoken", id: `cltl-${Math.random().toString(36).slice(2)}` }, TL_HELP)
  };
  dom.canvas.setAttribute("aria-describedby", dom.help.id);
  dom.frame = uiElement("div", { class: "cltl-frame" }, dom.stage);
  dom.stage.append(dom.canvas);
  const group = (...children) => uiElement("span", { class: "cltl-group" }, ...children);
  dom.tools = uiElement(
    "div",
    { class: "cltl-tools", role: "toolbar", "aria-label": "Timeline" },
    group(dom.search, dom.previous, dom.next, dom.matches),
    group(dom.zoomOut, dom.zoomIn, dom.fit),
    dom.legend
  );
  const hint = uiElement("div", { class: "cltl-hint", "aria-hidden": "true" });
  for (const [key, what] of TL_KEYS) hint.append(uiElement("span", {}, uiElement("kbd", {}, key), ` ${what}`), " ");
  for (const node of Object.values(dom)) {
    if (/^(canvas|input|button)$/i.test(node.tagName)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  }
  dom.host = uiElement(
    "div",
    { class: "cltl", role: "group", "aria-label": "Stream timeline" },
    dom.tools,
    dom.frame,
    hint,
    dom.tip,
    dom.spoken,
    dom.help
  );
  root.append(dom.host);
  return dom;
}
function styleTimelineDom(dom, colors) {
  const { style } = dom.host;
  const names = { bg: "bg", text: "text", muted: "muted", line: "line", soft: "lineSoft", accent: "accent", tip: "tip", field: "field" };
  for (const [name, key] of Object.entries(names)) style.setProperty(`--tl-${name}`, colors[key]);
  style.setProperty("--tl-tip-text", colors.tipText);
  style.setProperty("color-scheme", colors.bg < "#8" ? "dark" : "light");
}
function fillLegend(dom, entries) {
  dom.legend.replaceChildren(...entries.map(([label, color]) => {
    const swatch = uiElement("i", { "aria-hidden": "true" });
    swatch.style.background = color;
    return uiElement("li", {}, swatch, label);
  }));
}
function showTip(dom, lines, x, y) {
  const [name, ...rest] = lines;
  dom.tip.replaceChildren(uiElement("b", {}, name), ...rest.map((line) => uiElement("div", {}, line)));
  dom.tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = dom.tip;
  const room = dom.host.clientWidth;
  dom.tip.style.left = `${Math.max(0, x + 14 + width > room ? x - width - 10 : x + 14)}px`;
  dom.tip.style.top = `${y + 18 + height > dom.host.clientHeight ? y - height - 8 : y + 18}px`;
}

// js/timeline/view.js
var TL_ROW = 18;
var TL_RULER = 24;
var TL_OVERVIEW = 26;
var TL_HEAD = TL_RULER + TL_OVERVIEW;
var TL_LANE_PAD = 4;
var TL_SHORTEST = 20;
function timelineExtent(data, isWork = false) {
  let low = Infinity;
  let high = -Infinity;
  const isMark = data.header.cats.map((cat) => cat === "Trace" || cat === "overhead");
  for (let i = 0; i < data.n; i++) {
    if (isWork && (isMark[data.cat[i]] || data.flags[i] & 1)) continue;
    if (data.start[i] < low) low = data.start[i];
    const end = data.start[i] + data.dur[i];
    if (end > high) high = end;
  }
  if (low === Infinity) return isWork ? timelineExtent(data) : [0, 1e3];
  return [low, Math.max(high, low + 1)];
}
function clampWindow([t0, t1], extent) {
  const whole = (extent[1] - extent[0]) * 1.04;
  const span = Math.min(Math.max(t1 - t0, Math.min(TL_SHORTEST, whole)), whole);
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
  const step = Math.max(1, [1, 2, 5, 10].find((k) => k * power >= raw * 0.999) * power);
  const ticks = [];
  for (let k = Math.ceil(t0 / step); k * step <= t1 && ticks.length < 200; k++) {
    ticks.push({ t: k * step, text: tickText(k * step, step) });
  }
  return { ticks, step };
}
function tickText(t, step) {
  const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([k]) => Math.abs(t) >= k) ?? [1, "ns"];
  const decimals = Math.max(0, Math.ceil(Math.log10(scale / step) - 1e-9));
  return t === 0 ? "0" : `${(t / scale).toFixed(decimals)} ${unit}`;
}
function exactTime(t) {
  const [scale, unit, decimals] = [[1e9, "s", 9], [1e6, "ms", 6], [1e3, "µs", 3]].find(([k]) => Math.abs(t) >= k) ?? [1, "ns", 0];
  return `${(t / scale).toFixed(decimals)} ${unit}`;
}
function layoutLanes(heights, collapsed) {
  const tops = new Float64Array(heights.length + 1);
  const shown = new Uint16Array(heights.length);
  heights.forEach((height, l) => {
    shown[l] = collapsed.has(l) ? 1 : height;
    tops[l + 1] = tops[l] + shown[l] * TL_ROW + 2 * TL_LANE_PAD;
  });
  return { tops, shown, total: tops[heights.length] };
}
function laneAtY(layout, y) {
  const { tops } = layout;
  if (y < 0 || y >= layout.total) return -1;
  let low = 0;
  let high = tops.length - 2;
  while (low < high) {
    const mid = low + high + 1 >> 1;
    if (tops[mid] <= y) low = mid;
    else high = mid - 1;
  }
  return low;
}
function rowTop(layout, lane, row) {
  return layout.tops[lane] + TL_LANE_PAD + row * TL_ROW;
}
function rowAtY(layout, y) {
  const lane = laneAtY(layout, y);
  if (lane < 0) return null;
  const row = Math.floor((y - layout.tops[lane] - TL_LANE_PAD) / TL_ROW);
  return row >= 0 && row < layout.shown[lane] ? { lane, row } : null;
}
function spokenEvent(data, i) {
  const { names, cats, lanes } = data.header;
  const parts = [names[data.name[i]].slice(0, 200) || "no name", cats[data.cat[i]] || "no category"];
  parts.push(data.flags[i] & 1 ? "an instant" : `lasts ${uiDuration(data.dur[i])}`);
  parts.push(`starts at ${uiDuration(data.start[i])}`, `on ${lanes[data.lane[i]].label}`);
  if (data.launch[i] >= 0) parts.push(`launched by ${names[data.name[data.launch[i]]].slice(0, 100)}`);
  return parts.join(", ");
}
function blockLabel(name) {
  const short = name.slice(0, 300).replace(/^void /, "").replaceAll("(anonymous namespace)::", "").replaceAll("at::native::", "");
  return short || name.slice(0, 300);
}
function shortLabel(label) {
  return label.replace(/^(aten|prims|c10d|autograd::engine::evaluate_function): ?:?|^nn\.Module: |^.{1,200}?\(\d+\): /, "") || label;
}

// js/timeline/frame.js
function frameOf(tl) {
  const { size, view, layout } = tl;
  const width = size.width - size.gutter;
  const pixels = Math.max(1, Math.round(width * size.ratio));
  const w = (view[1] - view[0]) / pixels;
  const t0 = Math.round(view[0] / w) * w;
  const scale = pixels / size.ratio / (view[1] - view[0]);
  const top = Math.min(tl.scroll, Math.max(0, layout.total - 1));
  const firstLane = Math.max(0, laneAtY(layout, top));
  let lastLane = laneAtY(layout, top + size.height - TL_HEAD);
  if (lastLane < 0) lastLane = layout.shown.length - 1;
  const x = (t) => size.gutter + (t - t0) * scale;
  const y = (lane, row) => TL_HEAD + rowTop(layout, lane, row) - tl.scroll;
  return { width, pixels, w, t0, t1: t0 + pixels * w, scale, firstLane, lastLane, x, y };
}
function eventBox(tl, frame, i) {
  const lane = tl.data.lane[i];
  const row = tl.rows.row[i];
  if (row >= tl.layout.shown[lane]) return null;
  const x = frame.x(tl.data.start[i]);
  return { x, y: Math.round(frame.y(lane, row)), width: Math.max(1, tl.data.dur[i] * frame.scale) };
}

// js/timeline/overview.js
var TL_OVERVIEW_ROWS = 400;
function overviewShares(tl, num) {
  const shares = { device: new Float32Array(num), host: new Float32Array(num) };
  const most = { device: 0, host: 0 };
  tl.data.header.lanes.forEach((lane, l) => {
    for (let r = tl.index.laneRow[l]; r < Math.min(tl.index.laneRow[l + 1], TL_OVERVIEW_ROWS); r++) {
      addBusy(tl.index, r, ...tl.whole, shares[lane.kind]);
    }
  });
  for (const kind of ["device", "host"]) {
    for (const share of shares[kind]) if (share > most[kind]) most[kind] = share;
    if (most[kind] > 0) for (let x = 0; x < num; x++) shares[kind][x] /= most[kind];
  }
  return { shares, most };
}
function renderOverview(tl, width) {
  const picture = document.createElement("canvas");
  const num = Math.max(1, Math.round(width * tl.size.ratio));
  picture.width = num;
  picture.height = Math.round((TL_OVERVIEW - 6) * tl.size.ratio);
  const g = picture.getContext("2d");
  const { shares, most } = overviewShares(tl, num);
  const kinds = ["device", "host"].filter((kind) => most[kind] > 0);
  const height = picture.height / Math.max(kinds.length, 1);
  kinds.forEach((kind, k) => {
    g.fillStyle = tl.tones.css[kind === "device" ? 0 : tl.hostTone];
    for (let x = 0; x < num; x++) {
      const tall = shares[kind][x] * (height - 1);
      if (tall > 0) g.fillRect(x, (k + 1) * height - Math.max(1, tall), 1, Math.max(1, tall));
    }
  });
  return picture;
}
function overviewX(tl, t) {
  const { gutter, width } = tl.size;
  return gutter + (t - tl.whole[0]) / (tl.whole[1] - tl.whole[0]) * (width - gutter);
}
function overviewTime(tl, x) {
  const { gutter, width } = tl.size;
  return tl.whole[0] + (x - gutter) / (width - gutter) * (tl.whole[1] - tl.whole[0]);
}
function paintOverview(g, tl, { width, t0, t1 }) {
  const { gutter, ratio } = tl.size;
  const key = `${width} ${ratio} ${tl.mode}`;
  if (tl.overview?.key !== key) tl.overview = { key, picture: renderOverview(tl, width) };
  g.fillStyle = tl.colors.gutter;
  g.fillRect(gutter, 0, width, TL_OVERVIEW);
  g.drawImage(tl.overview.picture, gutter, 3, width, TL_OVERVIEW - 6);
  const left = Math.max(gutter, overviewX(tl, t0));
  const right = Math.min(gutter + width, overviewX(tl, t1));
  g.fillStyle = tl.colors.bg;
  g.globalAlpha = 0.65;
  g.fillRect(gutter, 0, left - gutter, TL_OVERVIEW);
  g.fillRect(right, 0, gutter + width - right, TL_OVERVIEW);
  g.globalAlpha = 1;
  g.strokeStyle = tl.colors.muted;
  g.lineWidth = 1;
  const slim = Math.max(3, right - left);
  g.strokeRect(Math.min(left, gutter + width - slim) + 0.5, 0.5, slim - 1, TL_OVERVIEW - 1);
}

// js/timeline/input.js
var TL_CLICK_PX = 4;
function zoneOf(tl, x, y) {
  if (x < tl.size.gutter) return y < TL_HEAD ? "corner" : "gutter";
  if (y < TL_OVERVIEW) return "overview";
  return y < TL_HEAD ? "ruler" : "plot";
}
function listenToPointer(tl, act) {
  const { canvas } = tl.dom;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  tl.listen(canvas, "pointerdown", (event) => {
    if (event.button !== 0) return;
    const [x, y] = at(event);
    const zone = zoneOf(tl, x, y);
    tl.isArmed = true;
    canvas.focus({ preventScroll: true });
    canvas.setPointerCapture(event.pointerId);
    const kind = zone === "ruler" || zone === "plot" && event.shiftKey ? "range" : zone;
    tl.drag = { kind, x, y, view: [...tl.view], scroll: tl.scroll, moved: false, from: act.timeAt(x) };
    if (kind === "overview") act.centre(overviewTime(tl, x));
  });
  tl.listen(canvas, "pointermove", (event) => {
    const [x, y] = at(event);
    if (tl.drag === null) {
      canvas.style.cursor = { gutter: "pointer", ruler: "col-resize", overview: "ew-resize" }[zoneOf(tl, x, y)] ?? "default";
      act.hover(x, y, zoneOf(tl, x, y) === "plot");
    } else dragTo(tl, act, x, y);
  });
  tl.listen(canvas, "pointerup", (event) => {
    const [x, y] = at(event);
    const { drag } = tl;
    tl.drag = null;
    canvas.style.cursor = "default";
    if (drag === null) return;
    if (drag.kind === "range" && drag.moved) act.finishRange();
    else if (!drag.moved && drag.kind === "gutter") act.toggleLane(y);
    else if (!drag.moved && drag.kind === "range") act.clearRange();
    else if (!drag.moved && drag.kind === "plot") act.click(x, y);
  });
  tl.listen(canvas, "pointercancel", () => tl.drag = null);
  tl.listen(canvas, "pointerleave", () => {
    tl.isArmed = tl.drag !== null;
    act.hover(0, 0, false);
  });
  tl.listen(canvas, "dblclick", (event) => {
    const [x, y] = at(event);
    if (zoneOf(tl, x, y) === "plot") act.zoomToEventAt(x, y);
    else if (zoneOf(tl, x, y) !== "gutter") act.fit();
  });
  tl.listen(canvas, "wheel", (event) => wheel(tl, act, event, at(event)), { passive: false });
}
function dragTo(tl, act, x, y) {
  const { drag } = tl;
  if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < TL_CLICK_PX) return;
  drag.moved = true;
  if (drag.kind === "plot") {
    tl.dom.canvas.style.cursor = "grabbing";
    const perPx = (drag.view[1] - drag.view[0]) / (tl.size.width - tl.size.gutter);
    act.show(drag.view.map((t) => t - (x - drag.x) * perPx));
    tl.dom.frame.scrollTop = drag.scroll - (y - drag.y);
  } else if (drag.kind === "range") {
    act.dragRange(drag.from, act.timeAt(Math.min(Math.max(x, tl.size.gutter), tl.size.width)));
  } else if (drag.kind === "overview") act.centre(overviewTime(tl, x));
}
function wheel(tl, act, event, [x]) {
  const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  const isZoom = event.ctrlKey || event.metaKey;
  if (!isZoom && !tl.isArmed) return;
  event.preventDefault();
  const sideways = event.shiftKey && dx === 0 ? dy : dx;
  if (!isZoom && (event.shiftKey || Math.abs(dx) > Math.abs(dy))) act.pan(sideways);
  else act.zoom(Math.exp(Math.min(Math.max(dy, -200), 200) * (isZoom && Math.abs(dy) < 30 ? 0.01 : 22e-4)), x);
}
var TL_HELD = { w: [1, 0], s: [-1, 0], a: [0, -1], d: [0, 1] };
var TL_ARROWS = { ArrowLeft: "left", ArrowRight: "right", ArrowUp: "up", ArrowDown: "down" };
function listenToKeys(tl, act) {
  const { canvas, search } = tl.dom;
  tl.listen(canvas, "keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (pressed(tl, act, event)) {
      event.preventDefault();
      event.stopPropagation();
    }
  });
  tl.listen(canvas, "keyup", (event) => tl.held.delete(event.key.toLowerCase()));
  tl.listen(canvas, "focus", () => act.focusChanged(true));
  tl.listen(canvas, "blur", () => {
    tl.held.clear();
    tl.isArmed = false;
    act.focusChanged(false);
  });
  tl.listen(search, "input", () => act.search(search.value));
  tl.listen(search, "keydown", (event) => {
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
function pressed(tl, act, event) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key in TL_HELD) act.hold(key, TL_HELD[key]);
  else if (key in TL_ARROWS) act.arrow(TL_ARROWS[key]);
  else if (key === "Enter" || key === " ") act.enter(event.shiftKey);
  else if (key === "f") act.fit();
  else if (key === "z") act.zoomToFocused();
  else if (key === "l") act.follow();
  else if (key === "c") act.toggleFocusLane();
  else if (key === "/") tl.dom.search.select();
  else if (key === "n") act.nextMatch(event.shiftKey ? -1 : 1);
  else if (key === "+" || key === "=") act.zoom(0.7, null);
  else if (key === "-") act.zoom(1 / 0.7, null);
  else if (key === "Home" || key === "End") act.toEnd(key === "End");
  else if (key === "PageUp" || key === "PageDown") tl.dom.frame.scrollBy(0, (key === "PageUp" ? -0.8 : 0.8) * tl.size.height);
  else if (key === "Escape") return act.escape();
  else return false;
  return true;
}
var heldMotion = (held) => [...held].reduce(([z, p], key) => [z + TL_HELD[key][0], p + TL_HELD[key][1]], [0, 0]);

// js/timeline/arrows.js
var TL_MOST_ARROWS = 80;
function launchIndex(data) {
  const first = new Uint32Array(data.n + 1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) first[data.launch[i] + 1]++;
  for (let i = 0; i < data.n; i++) first[i + 1] += first[i];
  const work = new Uint32Array(first[data.n]);
  const next = first.slice(0, -1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) work[next[data.launch[i]]++] = i;
  return { first, work };
}
function launchesOf(tl, i, most = TL_MOST_ARROWS) {
  if (tl.data.launch[i] >= 0) return [i];
  const { first, work } = tl.launches;
  return [...work.subarray(first[i], Math.min(first[i + 1], first[i] + most))];
}
function paintArrows(g, tl, frame) {
  const strong = /* @__PURE__ */ new Set();
  for (const i of [tl.hover, tl.focused, tl.selected]) {
    if (i !== null) for (const work of launchesOf(tl, i)) strong.add(work);
  }
  g.globalAlpha = 0.45;
  for (const i of fewInView(tl, frame)) {
    const from = tl.data.start[tl.data.launch[i]];
    if (!strong.has(i) && from >= frame.t0 && from <= frame.t1) paintArrow(g, tl, frame, i, 1);
  }
  g.globalAlpha = 1;
  for (const i of strong) paintArrow(g, tl, frame, i, 1.8);
}
function fewInView(tl, frame) {
  const { index, data } = tl;
  const found = [];
  let seen = 0;
  for (let l = frame.firstLane; l <= frame.lastLane; l++) {
    if (data.header.lanes[l].kind !== "device") continue;
    for (let row = 0; row < tl.layout.shown[l]; row++) {
      const r = index.laneRow[l] + row;
      for (let p = placeAt(index, r, frame.t0); p < index.first[r + 1] && index.s[p] < frame.t1; p++) {
        if (seen++ > 4 * TL_MOST_ARROWS) return [];
        if (data.launch[index.at[p]] >= 0 && found.push(index.at[p]) > TL_MOST_ARROWS) return [];
      }
    }
  }
  return found;
}
function paintArrow(g, tl, frame, i, width) {
  const from = eventBox(tl, frame, tl.data.launch[i]) ?? parentBox(tl, frame, tl.data.launch[i]);
  const to = eventBox(tl, frame, i);
  if (from === null || to === null) return;
  const isDown = to.y > from.y;
  const x0 = from.x + Math.min(from.width / 2, 12);
  const y0 = from.y + (isDown ? TL_ROW - 1 : 0);
  const y1 = to.y + (isDown ? 0 : TL_ROW - 1);
  const bend = Math.min(60, Math.abs(y1 - y0) / 2 + 8) * (isDown ? 1 : -1);
  g.strokeStyle = g.fillStyle = tl.colors.arrow;
  g.lineWidth = width;
  g.beginPath();
  g.moveTo(x0, y0);
  g.bezierCurveTo(x0, y0 + bend, to.x, y1 - bend, to.x, y1);
  g.stroke();
  const tip = isDown ? -6 : 6;
  g.beginPath();
  g.moveTo(to.x, y1);
  g.lineTo(to.x - 3.5, y1 + tip);
  g.lineTo(to.x + 3.5, y1 + tip);
  g.fill();
}
function parentBox(tl, frame, i) {
  let up = i;
  while (up >= 0 && tl.rows.row[up] >= tl.layout.shown[tl.data.lane[up]]) up = tl.data.parent[up];
  if (up < 0) return null;
  const box = eventBox(tl, frame, up);
  return { x: frame.x(tl.data.start[i]), y: box.y, width: 1 };
}

// js/timeline/races.js
var RACE_RED = "#e5484d";
function raceMarks(data) {
  const first = [0];
  for (const lane of data.header.lanes) first.push(first.at(-1) + lane.count);
  return (data.header.races ?? []).map((mark) => ({ ...mark, event: eventOfMark(data, mark, first) }));
}
function eventOfMark(data, { lane, at, dur }, first) {
  if (lane < 0) return -1;
  for (let i = first[lane]; i < first[lane + 1]; i++) if (data.start[i] === at && data.dur[i] === dur) return i;
  return -1;
}
function paintRaceFlags(g, tl, { x, t0, t1 }) {
  g.fillStyle = RACE_RED;
  for (const { at } of tl.races) {
    if (at < t0 || at > t1) continue;
    const left = Math.round(x(at));
    g.fillRect(left, TL_HEAD - 14, 1.5, 14);
    g.beginPath();
    g.moveTo(left, TL_HEAD - 14);
    g.lineTo(left + 9, TL_HEAD - 10.5);
    g.lineTo(left, TL_HEAD - 7);
    g.fill();
  }
}

// js/timeline/syncs.js
var SYNC_ORANGE = "#d55e00";
var SYNC_TICK = 8;
function syncMarks(data) {
  const marks = data.header.syncs ?? [];
  if (!marks.length) return [];
  const first = [0];
  for (const lane of data.header.lanes) first.push(first.at(-1) + lane.count);
  const wanted = new Map(marks.map((mark) => [`${mark.lane} ${mark.at} ${mark.dur}`, -1]));
  for (const lane of new Set(marks.map((mark) => mark.lane))) {
    for (let i = first[lane]; i < first[lane + 1]; i++) {
      const key = `${lane} ${data.start[i]} ${data.dur[i]}`;
      if (wanted.has(key)) wanted.set(key, i);
    }
  }
  return marks.map((mark) => ({ ...mark, event: wanted.get(`${mark.lane} ${mark.at} ${mark.dur}`) }));
}
function paintSyncTicks(g, tl, { x, t0, t1 }) {
  g.fillStyle = SYNC_ORANGE;
  for (const { at, dur } of tl.syncs) {
    if (at + dur < t0 || at > t1) continue;
    const left = Math.round(x(at));
    g.fillRect(left, TL_HEAD - SYNC_TICK / 2, Math.max(1.5, x(at + dur) - left), SYNC_TICK / 2);
  }
}

// js/timeline/draw.js
var TL_FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif';
var TL_TEXT_FROM = 28;
function createPainter(canvas, data) {
  const strip = document.createElement("canvas");
  return {
    canvas,
    strip,
    context: canvas.getContext("2d", { alpha: false }),
    stripContext: strip.getContext("2d"),
    labels: new Array(data.header.names.length),
    image: null
  };
}
function usePalette(tl, mode) {
  tl.colors = theme_default[mode];
  tl.tones = themeTones(mode);
  const dim = parseInt(tl.colors.dim.slice(1), 16);
  const packed = ((dim & 255) << 16 | dim & 65280 | dim >> 16) >>> 0;
  tl.dimPixels = new Uint32Array(tl.tones.pixels.length).fill(packed);
}
function paintFrame(tl) {
  const { painter, size, colors } = tl;
  const g = painter.context;
  g.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  g.font = TL_FONT;
  g.textBaseline = "middle";
  g.fillStyle = colors.bg;
  g.fillRect(0, 0, size.width, size.height);
  const frame = frameOf(tl);
  g.save();
  g.beginPath();
  g.rect(size.gutter, TL_HEAD, frame.width, size.height - TL_HEAD);
  g.clip();
  paintBands(g, tl, frame);
  paintLaneLines(g, tl, frame, size.gutter);
  paintBlocks(g, tl, frame);
  paintMarks(g, tl, frame);
  paintArrows(g, tl, frame);
  g.restore();
  paintRange(g, tl, frame);
  paintRuler(g, tl, frame);
  paintSyncTicks(g, tl, frame);
  paintRaceFlags(g, tl, frame);
  paintOverview(g, tl, frame);
  paintGutter(g, tl, frame);
}
function paintBands(g, tl, { x, t0, t1 }) {
  g.fillStyle = tl.colors.band;
  g.globalAlpha = tl.colors.bandAlpha;
  tl.steps.forEach((step, k) => {
    if (k % 2 === 0 && step.t1 > t0 && step.t0 < t1) g.fillRect(x(step.t0), TL_HEAD, Math.max(1, x(step.t1) - x(step.t0)), tl.size.height);
  });
  g.globalAlpha = 1;
}
function paintLaneLines(g, tl, { firstLane, lastLane }, left) {
  g.fillStyle = tl.colors.lineSoft;
  for (let l = firstLane; l <= lastLane; l++) {
    g.fillRect(left, Math.round(TL_HEAD + tl.layout.tops[l + 1] - tl.scroll) - 1, tl.size.width - left, 1);
  }
}
function paintBlocks(g, tl, frame) {
  const { painter, layout, size } = tl;
  const rows = visibleRows(tl, frame);
  if (!rows.length) return;
  const { pixels } = frame;
  if (painter.strip.width < pixels || painter.strip.height < rows.length || !painter.image) {
    painter.strip.width = pixels;
    painter.strip.height = Math.max(rows.length, painter.strip.height);
    painter.image = painter.stripContext.createImageData(pixels, painter.strip.height);
    painter.words = new Uint32Array(painter.image.data.buffer);
  }
  const pitch = painter.image.width;
  const words = painter.words.fill(0, 0, pitch * rows.length);
  const texts = [];
  rows.forEach(({ lane, row }, k) => paintOneRow(tl, frame, lane, row, words, k * pitch, texts));
  painter.stripContext.putImageData(painter.image, 0, 0, 0, 0, pixels, rows.length);
  g.imageSmoothingEnabled = false;
  rows.forEach(({ lane, row }, k) => {
    g.drawImage(painter.strip, 0, k, pixels, 1, size.gutter, Math.round(frame.y(lane, row)), pixels / size.ratio, TL_ROW - 1);
  });
  paintTexts(g, tl, frame, texts);
}
function visibleRows(tl, { firstLane, lastLane, y }) {
  const rows = [];
  for (let lane = firstLane; lane <= lastLane; lane++) {
    for (let row = 0; row < tl.layout.shown[lane]; row++) {
      const at = y(lane, row);
      if (at > TL_HEAD - TL_ROW && at < tl.size.height) rows.push({ lane, row });
    }
  }
  return rows;
}
function paintOneRow(tl, frame, lane, row, words, base, texts) {
  const { index, chosen } = tl;
  const from = TL_TEXT_FROM * tl.size.ratio;
  const r = index.laneRow[lane] + row;
  const y = frame.y(lane, row);
  const collect = (source, isDim) => (p, x0, x1) => {
    if (isDim && chosen.keep[source.at[p]]) return;
    texts.push({ i: source.at[p], tone: source.tone[p], x0, x1, y, isDim });
  };
  if (chosen === null) {
    paintRow(index, r, frame.t0, frame.w, words, base, frame.pixels, tl.tones.pixels, 1, collect(index, false), from);
    return;
  }
  paintRow(index, r, frame.t0, frame.w, words, base, frame.pixels, tl.dimPixels, 1, collect(index, true), from);
  paintRow(chosen.index, r, frame.t0, frame.w, words, base, frame.pixels, tl.tones.pixels, 1, collect(chosen.index, false), from);
}
function paintTexts(g, tl, frame, texts) {
  const { ratio, gutter } = tl.size;
  g.textAlign = "left";
  for (const { i, tone, x0, x1, y, isDim } of texts) {
    const left = Math.max(0, x0) / ratio;
    const room = Math.min(frame.width, x1 / ratio) - left - 8;
    const text = fittedText(g, tl, tl.data.name[i], room);
    if (!text) continue;
    g.fillStyle = isDim ? tl.colors.muted : tl.tones.ink[tone];
    g.fillText(text, Math.round(gutter + left + 4), Math.round(y) + TL_ROW / 2);
  }
}
function fittedText(g, tl, name, room) {
  const label = tl.painter.labels[name] ??= measuredLabel(g, tl.data.header.names[name]);
  if (label.width <= room) return label.text;
  if (label.shortWidth <= room) return label.short;
  let letters = Math.floor(label.short.length * room / label.shortWidth);
  while (letters >= 2 && cutWidth(g, label, letters) > room) letters--;
  return letters < 2 ? "" : `${label.short.slice(0, letters)}…`;
}
function cutWidth(g, label, letters) {
  return label.cuts[letters] ??= g.measureText(`${label.short.slice(0, letters)}…`).width;
}
function measuredLabel(g, name) {
  const text = blockLabel(name);
  const short = shortLabel(text);
  return { text, short, cuts: [], width: g.measureText(text).width, shortWidth: g.measureText(short).width };
}
function paintMarks(g, tl, frame) {
  for (const { event } of tl.syncs) if (event >= 0) outline(g, tl, frame, event, SYNC_ORANGE, 1.5);
  for (const { event } of tl.races) if (event >= 0) outline(g, tl, frame, event, RACE_RED, 2.5);
  if (tl.hover !== null && tl.hover !== tl.selected) outline(g, tl, frame, tl.hover, tl.colors.text, 1);
  if (tl.selected !== null) outline(g, tl, frame, tl.selected, tl.colors.accent, 2.5);
  if (tl.focused !== null && tl.focused !== tl.selected && tl.hasFocus) outline(g, tl, frame, tl.focused, tl.colors.text, 2, [4, 2]);
}
function outline(g, tl, frame, i, color, width, dash = []) {
  const box = eventBox(tl, frame, i);
  if (box === null) return;
  g.strokeStyle = color;
  g.lineWidth = width;
  g.setLineDash(dash);
  const left = Math.max(box.x, tl.size.gutter - 4);
  g.strokeRect(left, box.y, Math.max(2, Math.min(box.x + box.width, tl.size.width + 4) - left), TL_ROW - 1);
  g.setLineDash([]);
}
function paintRange(g, tl, { x, width }) {
  if (tl.range === null) return;
  const { gutter, height } = tl.size;
  const clip = (value) => Math.min(Math.max(value, gutter), gutter + width);
  const [left, right] = tl.range.map((t) => clip(x(t)));
  if (right <= gutter || left >= gutter + width) return;
  g.fillStyle = tl.colors.accent;
  g.globalAlpha = tl.colors.rangeAlpha;
  g.fillRect(left, TL_OVERVIEW, right - left, height - TL_OVERVIEW);
  g.globalAlpha = 1;
  if (left > gutter) g.fillRect(left - 0.5, TL_OVERVIEW, 1, height);
  if (right < gutter + width) g.fillRect(right - 0.5, TL_OVERVIEW, 1, height);
}
function paintRuler(g, tl, { x, t0, t1, width }) {
  const { gutter } = tl.size;
  const { ticks } = rulerTicks(t0, t1, width);
  g.fillStyle = tl.colors.line;
  g.fillRect(gutter, TL_HEAD - 1, width, 1);
  g.textAlign = "left";
  for (const { t, text } of ticks) {
    const at = Math.round(x(t));
    g.fillStyle = tl.colors.line;
    g.fillRect(at, TL_HEAD - 8, 1, 8);
    g.fillStyle = tl.colors.muted;
    if (at + 60 < tl.size.width) g.fillText(text, at + 4, TL_OVERVIEW + TL_RULER / 2);
  }
  if (tl.range !== null && tl.range[1] > t0 && tl.range[0] < t1) paintRangeText(g, tl, x, width);
}
function paintRangeText(g, tl, x, width) {
  const { gutter } = tl.size;
  const text = uiDuration(tl.range[1] - tl.range[0]);
  const room = g.measureText(text).width + 12;
  const middle = (x(tl.range[0]) + x(tl.range[1])) / 2;
  const left = Math.min(Math.max(middle - room / 2, gutter), gutter + width - room);
  g.fillStyle = tl.colors.tip;
  g.fillRect(left, TL_OVERVIEW + 3, room, TL_RULER - 6);
  g.fillStyle = tl.colors.tipText;
  g.fillText(text, left + 6, TL_OVERVIEW + TL_RULER / 2);
}
function paintGutter(g, tl, { firstLane, lastLane }) {
  const { gutter, height } = tl.size;
  g.fillStyle = tl.colors.gutter;
  g.fillRect(0, 0, gutter, height);
  g.save();
  g.beginPath();
  g.rect(0, TL_HEAD, gutter - 1, height - TL_HEAD);
  g.clip();
  paintLaneLines(g, tl, { firstLane, lastLane }, 0);
  g.textAlign = "left";
  for (let l = firstLane; l <= lastLane; l++) paintLaneLabel(g, tl, l);
  g.restore();
  g.fillStyle = tl.colors.line;
  g.fillRect(gutter - 1, 0, 1, height);
  g.fillRect(0, TL_HEAD - 1, gutter, 1);
}
function paintLaneLabel(g, tl, l) {
  const { layout, colors, size } = tl;
  const isTall = tl.rows.heights[l] > 1;
  const low = TL_HEAD + layout.tops[l] - tl.scroll + TL_ROW / 2 + 4;
  const high = TL_HEAD + layout.tops[l + 1] - tl.scroll - TL_ROW / 2 - 4;
  const y = Math.round(Math.min(Math.max(low, TL_HEAD + TL_ROW / 2 + 4), high));
  g.fillStyle = colors.muted;
  if (isTall) paintTriangle(g, 12, y, tl.collapsed.has(l));
  g.fillStyle = l === tl.focusLane && tl.hasFocus ? colors.accent : colors.text;
  g.fillText(cutToWidth(g, tl.data.header.lanes[l].label, size.gutter - 32), 22, y);
}
function paintTriangle(g, x, y, isClosed) {
  const points = isClosed ? [[-2.5, -4], [3, 0], [-2.5, 4]] : [[-4, -2.5], [4, -2.5], [0, 3]];
  g.beginPath();
  points.forEach(([dx, dy], k) => k ? g.lineTo(x + dx, y + dy) : g.moveTo(x + dx, y + dy));
  g.fill();
}
function cutToWidth(g, text, room) {
  let shown = text.slice(0, 100);
  if (shown === text && g.measureText(shown).width <= room) return shown;
  while (shown.length > 1 && g.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
  return `${shown}…`;
}
function legendEntries(tl) {
  const seen = new Uint8Array(theme_default.groups.length);
  for (const tone of tl.index.tone) seen[tone / THEME_SHADES | 0] = 1;
  return theme_default.groups.flatMap((group, k) => seen[k] ? [[group.label, tl.tones.css[k * THEME_SHADES]]] : []);
}

// js/timeline/moves.js
var TL_FRAMES_KEPT = 2e3;
function measure(tl) {
  const { frame, stage, canvas } = tl.dom;
  const width = Math.max(1, frame.clientWidth);
  const height = Math.max(TL_HEAD + TL_ROW, frame.clientHeight);
  const ratio = window.devicePixelRatio || 1;
  stage.style.height = `${Math.max(height, Math.ceil(tl.layout.total + TL_HEAD))}px`;
  const { size } = tl;
  if (size.width !== width || size.height !== height || size.ratio !== ratio) {
    tl.size = { width, height, ratio, gutter: Math.round(Math.min(188, Math.max(132, width * 0.2), width * 0.35)) };
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (tl.painter) paintNow(tl);
  } else askFrame(tl);
}
function paintNow(tl) {
  const began = performance.now();
  tl.scroll = tl.dom.frame.scrollTop;
  paintFrame(tl);
  tl.script.push(performance.now() - began);
  if (tl.script.length > TL_FRAMES_KEPT) tl.script.splice(0, TL_FRAMES_KEPT / 2);
}
function askFrame(tl) {
  if (tl.pending || tl.isGone) return;
  tl.pending = requestAnimationFrame((now) => {
    tl.pending = 0;
    if (tl.isGone) return;
    tl.beforeFrame?.(now);
    paintNow(tl);
  });
}
function moveTo(tl, view) {
  const next = clampWindow(view, tl.extent);
  if (next[0] === tl.view[0] && next[1] === tl.view[1]) return;
  tl.view = next;
  tl.options.onTime?.([...next]);
  askFrame(tl);
}
function glideTo(tl, view) {
  const target = clampWindow(view, tl.extent);
  tl.held.clear();
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return moveTo(tl, target);
  const from = [...tl.view];
  let began = null;
  tl.beforeFrame = (now) => {
    began ??= now;
    const share = Math.min(1, (now - began) / 180);
    const ease = 1 - (1 - share) ** 3;
    moveTo(tl, share < 1 ? from.map((t, k) => t + (target[k] - t) * ease) : target);
    if (share >= 1) tl.beforeFrame = null;
    else askFrame(tl);
  };
  askFrame(tl);
  return void 0;
}
function choose(tl) {
  const { data, names, search } = tl;
  if (names === null && search === null) tl.chosen = null;
  else {
    const wanted = new Uint8Array(data.header.names.length);
    for (let id = 0; id < wanted.length; id++) wanted[id] = +((names === null || names.has(id)) && (search === null || search.isHit[id]));
    const keep = new Uint8Array(data.n);
    for (let i = 0; i < data.n; i++) keep[i] = wanted[data.name[i]];
    tl.chosen = { keep, index: gatherRows(data, tl.rows, tl.tone, keep) };
  }
  askFrame(tl);
}
function relayout(tl) {
  tl.layout = layoutLanes(tl.rows.heights, tl.collapsed);
  measure(tl);
}
function announce(tl) {
  tl.options.onSelect?.({ range: tl.range && [...tl.range], event: tl.selected, names: tl.names && new Set(tl.names) });
}
function reveal(tl, i, isZoomed = false) {
  const { data, view, dom, layout } = tl;
  const [t0, t1] = [data.start[i], data.start[i] + data.dur[i]];
  const lane = data.lane[i];
  if (tl.rows.row[i] >= layout.shown[lane] && tl.collapsed.delete(lane)) relayout(tl);
  const y = rowTop(tl.layout, lane, tl.rows.row[i]);
  const room = tl.size.height - TL_HEAD;
  if (y < tl.scroll) dom.frame.scrollTop = y - 8;
  else if (y + TL_ROW > tl.scroll + room) dom.frame.scrollTop = y + TL_ROW + 8 - room;
  const span = view[1] - view[0];
  const perPx = span / (tl.size.width - tl.size.gutter);
  if (isZoomed) glideTo(tl, aroundEvent(t0, t1, 4));
  else if (t1 - t0 < 3 * perPx) glideTo(tl, aroundEvent(t0, t1, 30));
  else if (t1 < view[0] + span * 0.02 || t0 > view[1] - span * 0.02) {
    glideTo(tl, [(t0 + t1 - span) / 2, (t0 + t1 + span) / 2]);
  }
  askFrame(tl);
}
var aroundEvent = (t0, t1, times) => {
  const half = t1 > t0 ? (t1 - t0) * times / 2 : 500;
  return [(t0 + t1) / 2 - half, (t0 + t1) / 2 + half];
};
function focusEvent(tl, i) {
  if (i === null || i < 0) return;
  tl.focused = i;
  tl.focusLane = tl.data.lane[i];
  tl.dom.spoken.textContent = spokenEvent(tl.data, i);
  reveal(tl, i);
}

// js/timeline/nav.js
function placeOf(tl, i) {
  const r = tl.index.laneRow[tl.data.lane[i]] + tl.rows.row[i];
  let p = placeAt(tl.index, r, tl.data.start[i]);
  while (p < tl.index.first[r + 1] && tl.index.at[p] !== i) p++;
  return { r, p };
}
function neighbour(tl, i, direction) {
  if (direction === "left" || direction === "right") {
    const { r, p } = placeOf(tl, i);
    const q = direction === "left" ? p - 1 : p + 1;
    return q >= tl.index.first[r] && q < tl.index.first[r + 1] ? tl.index.at[q] : i;
  }
  const lane = tl.data.lane[i];
  const row = tl.rows.row[i] + (direction === "up" ? -1 : 1);
  const middle = tl.data.start[i] + tl.data.dur[i] / 2;
  if (row >= 0 && row < tl.layout.shown[lane]) {
    const inside = direction === "up" ? tl.data.start[i] : middle;
    const found = nearestInRow(tl, lane, row, inside, direction === "up" ? 0 : tl.data.dur[i] / 2);
    if (found >= 0) return found;
  }
  return otherLane(tl, lane, direction === "up" ? -1 : 1, middle) ?? i;
}
function otherLane(tl, lane, by, t) {
  for (let l = lane + by; l >= 0 && l < tl.layout.shown.length; l += by) {
    const found = nearestInRow(tl, l, 0, t, Infinity);
    if (found >= 0) return found;
  }
  return null;
}
function nearestInRow(tl, lane, row, t, reach) {
  const { index } = tl;
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
function acrossLaunch(tl, i) {
  if (tl.data.launch[i] >= 0) return tl.data.launch[i];
  return launchesOf(tl, i, 1)[0] ?? i;
}
function firstEvent(tl, lane) {
  const middle = (tl.view[0] + tl.view[1]) / 2;
  for (let l = Math.max(lane, 0); l < tl.layout.shown.length; l++) {
    const found = nearestInRow(tl, l, 0, middle, Infinity);
    if (found >= 0) return found;
  }
  return -1;
}
function searchNames(tl, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  tl.lowerNames ??= tl.data.header.names.map((name) => name.toLowerCase());
  const isHit = Uint8Array.from(tl.lowerNames, (name) => +name.includes(wanted));
  let count = 0;
  for (let i = 0; i < tl.data.n; i++) count += isHit[tl.data.name[i]];
  return { text: wanted, isHit, count, position: 0 };
}
function stepMatch(tl, from, by) {
  const { data, search } = tl;
  const isBefore = (a, b) => data.start[a] < data.start[b] || data.start[a] === data.start[b] && a < b;
  let best = -1;
  let extreme = -1;
  for (let i = 0; i < data.n; i++) {
    if (!search.isHit[data.name[i]]) continue;
    const after = by > 0 ? isBefore : (a, b) => isBefore(b, a);
    if (extreme < 0 || after(i, extreme)) extreme = i;
    const isPast = from >= 0 ? after(from, i) : by > 0 ? data.start[i] >= tl.view[0] : data.start[i] <= tl.view[1];
    if (isPast && (best < 0 || after(i, best))) best = i;
  }
  const found = best >= 0 ? best : extreme;
  let ordinal = 0;
  if (found >= 0) for (let i = 0; i < data.n; i++) ordinal += search.isHit[data.name[i]] && !isBefore(found, i) ? 1 : 0;
  return { found, ordinal };
}

// js/timeline/actions.js
var TL_SLACK_PX = 3;
function tipLines(tl, i) {
  const { data } = tl;
  const { names, cats, lanes } = data.header;
  const lines = [names[data.name[i]].slice(0, 400) || "(no name)"];
  const self = lanes[data.lane[i]].kind === "host" && data.self[i] !== data.dur[i] ? `, self ${uiDuration(data.self[i])}` : "";
  lines.push(data.flags[i] & 1 ? "instant" : `${uiDuration(data.dur[i])}${self}`);
  lines.push(`${cats[data.cat[i]] || "no category"} · at ${exactTime(data.start[i])}`);
  if (data.launch[i] >= 0) {
    const by = data.launch[i];
    lines.push(`launched by ${names[data.name[by]].slice(0, 100)}, ${uiDuration(data.start[i] - data.start[by])} earlier`);
  }
  const race = tl.races.find(({ event }) => event === i);
  if (race) lines.push(`race: ${race.title}`);
  return lines;
}
function createActions(tl) {
  const timeAt = (x) => {
    const frame = frameOf(tl);
    return frame.t0 + (x - tl.size.gutter) / frame.scale;
  };
  const eventUnder = (x, y) => {
    const place = rowAtY(tl.layout, y - TL_HEAD + tl.scroll);
    if (place === null || x < tl.size.gutter || y < TL_HEAD) return -1;
    const { index } = tl;
    return eventAt(index, index.laneRow[place.lane] + place.row, timeAt(x), TL_SLACK_PX / frameOf(tl).scale);
  };
  const act = {
    timeAt,
    eventUnder,
    show: (view) => {
      tl.beforeFrame = null;
      moveTo(tl, view);
    },
    pan: (px) => {
      const by = px / (tl.size.width - tl.size.gutter) * (tl.view[1] - tl.view[0]);
      act.show(tl.view.map((t) => t + by));
    },
    zoom: (factor, x) => {
      const share = x === null ? 0.5 : Math.min(Math.max((x - tl.size.gutter) / (tl.size.width - tl.size.gutter), 0), 1);
      const anchor = tl.view[0] + share * (tl.view[1] - tl.view[0]);
      act.show(tl.view.map((t) => anchor + (t - anchor) * factor));
    },
    centre: (t) => {
      const half = (tl.view[1] - tl.view[0]) / 2;
      act.show([t - half, t + half]);
    },
    fit: () => glideTo(tl, tl.whole),
    toEnd: (isEnd) => {
      const span = tl.view[1] - tl.view[0];
      const edge = span * 0.02;
      glideTo(tl, isEnd ? [tl.extent[1] + edge - span, tl.extent[1] + edge] : [tl.extent[0] - edge, tl.extent[0] - edge + span]);
    },
    hover: (x, y, isPlot) => {
      tl.pointerX = isPlot ? x : null;
      const found = isPlot ? eventUnder(x, y) : -1;
      const next = found < 0 ? null : found;
      if (next !== null) showTip(tl.dom, tipLines(tl, next), x + tl.dom.frame.offsetLeft, y + tl.dom.frame.offsetTop);
      else tl.dom.tip.hidden = true;
      if (next === tl.hover) return;
      tl.hover = next;
      tl.options.onHover?.(next);
      askFrame(tl);
    },
    click: (x, y) => {
      const found = eventUnder(x, y);
      tl.selected = tl.focused = found < 0 ? null : found;
      if (found >= 0) tl.dom.spoken.textContent = `selected ${spokenEvent(tl.data, found)}`;
      if (found < 0) tl.range = null;
      announce(tl);
      askFrame(tl);
    },
    zoomToEventAt: (x, y) => {
      const found = eventUnder(x, y);
      if (found >= 0) reveal(tl, found, true);
    },
    zoomToFocused: () => {
      if ((tl.focused ?? tl.selected) !== null) reveal(tl, tl.focused ?? tl.selected, true);
    },
    dragRange: (from, to) => {
      tl.range = [Math.min(from, to), Math.max(from, to)];
      askFrame(tl);
    },
    finishRange: () => announce(tl),
    clearRange: () => {
      if (tl.range) {
        tl.range = null;
        announce(tl);
        askFrame(tl);
      }
    },
    toggleLane: (y) => toggleLane(tl, laneAtY(tl.layout, y - TL_HEAD + tl.scroll)),
    toggleFocusLane: () => toggleLane(tl, tl.focusLane >= 0 ? tl.focusLane : laneAtY(tl.layout, tl.scroll)),
    arrow: (direction) => {
      if (tl.focused !== null) focusEvent(tl, neighbour(tl, tl.focused, direction));
      else if (direction === "left" || direction === "right") act.pan((direction === "left" ? -1 : 1) * 80);
      else tl.dom.frame.scrollBy(0, (direction === "up" ? -2 : 2) * TL_ROW);
    },
    enter: () => {
      if (tl.focused === null) return focusEvent(tl, firstEvent(tl, laneAtY(tl.layout, tl.scroll)));
      tl.selected = tl.focused;
      tl.dom.spoken.textContent = `selected ${spokenEvent(tl.data, tl.focused)}`;
      announce(tl);
      return askFrame(tl);
    },
    follow: () => {
      if (tl.focused !== null) focusEvent(tl, acrossLaunch(tl, tl.focused));
    },
    escape: () => escapeStep(tl),
    search: (text) => runSearch(tl, text),
    nextMatch: (by) => nextMatch(tl, by),
    hold: (key) => holdKey(tl, act, key),
    focusChanged: (hasFocus) => {
      tl.hasFocus = hasFocus;
      askFrame(tl);
    }
  };
  return act;
}
function toggleLane(tl, lane) {
  if (lane < 0 || tl.rows.heights[lane] < 2) return;
  if (!tl.collapsed.delete(lane)) tl.collapsed.add(lane);
  const { label } = tl.data.header.lanes[lane];
  tl.dom.spoken.textContent = `${label} ${tl.collapsed.has(lane) ? "folded" : "unfolded"}`;
  relayout(tl);
}
function escapeStep(tl) {
  if (tl.search !== null) {
    tl.dom.search.value = "";
    runSearch(tl, "");
  } else if (tl.focused !== null && tl.focused !== tl.selected) tl.focused = null;
  else if (tl.selected !== null || tl.range !== null) {
    tl.selected = tl.range = tl.focused = null;
    announce(tl);
  } else return false;
  tl.isArmed = false;
  askFrame(tl);
  return true;
}
function runSearch(tl, text) {
  tl.search = searchNames(tl, text);
  tl.dom.matches.textContent = tl.search === null ? "" : `${uiCount(tl.search.count)} ${tl.search.count === 1 ? "match" : "matches"}`;
  choose(tl);
  return tl.search?.count ?? 0;
}
function nextMatch(tl, by) {
  if (tl.search === null || tl.search.count === 0) return;
  const { found, ordinal } = stepMatch(tl, tl.search.at ?? -1, by);
  tl.search.at = found;
  tl.dom.matches.textContent = `${uiCount(ordinal)} of ${uiCount(tl.search.count)}`;
  tl.selected = found;
  focusEvent(tl, found);
  announce(tl);
}
function holdKey(tl, act, key) {
  const step = (z, p, share) => {
    if (z) act.zoom(Math.exp(-z * 2.2 * share), tl.pointerX ?? null);
    if (p) act.pan(p * 900 * share);
  };
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
    step(...heldMotion([key]), 0.12);
    return;
  }
  if (tl.held.has(key)) return;
  tl.held.add(key);
  let before = null;
  const move = (now) => {
    const share = before === null ? 1 / 60 : Math.min(0.05, (now - before) / 1e3);
    before = now;
    step(...heldMotion(tl.held), share);
    tl.beforeFrame = tl.held.size ? move : null;
    if (tl.held.size) askFrame(tl);
  };
  tl.beforeFrame = move;
  askFrame(tl);
}

// js/timeline/timeline.js
var TL_TALLEST = 460;
var TL_LOWEST = 150;
var TL_MOST_STEPS = 4e3;
function createTimeline(root, data, options = {}) {
  const tl = createState(data, options);
  tl.dom = buildTimelineDom(root);
  tl.painter = createPainter(tl.dom.canvas, data);
  const act = createActions(tl);
  listenToPointer(tl, act);
  listenToKeys(tl, act);
  listenToTools(tl, act);
  setTimelineTheme(tl, options.theme ?? "light");
  setFrameHeight(tl);
  measure(tl);
  const watch = new ResizeObserver(() => measure(tl));
  watch.observe(tl.dom.frame);
  tl.cleanups.push(() => watch.disconnect());
  paintNow(tl);
  return publicFace(tl, act);
}
function createState(data, options) {
  const rows = assignRows(data);
  const tone = assignTones(data);
  const whole = fitWindow(timelineExtent(data, true));
  const tl = {
    data,
    options,
    rows,
    tone,
    whole,
    extent: timelineExtent(data),
    view: [...whole],
    index: gatherRows(data, rows, tone),
    launches: launchIndex(data),
    collapsed: /* @__PURE__ */ new Set(),
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
    scroll: 0,
    size: { width: 0, height: 0, gutter: 150, ratio: 1 },
    script: [],
    pending: 0,
    cleanups: []
  };
  const isHost = data.header.lanes.findIndex((lane) => lane.kind === "host" && lane.count > 0);
  tl.hostTone = isHost < 0 ? 0 : tl.index.tone[tl.index.first[tl.index.laneRow[isHost]]];
  tl.layout = layoutLanes(rows.heights, tl.collapsed);
  tl.listen = (node, type, handler, how) => {
    node.addEventListener(type, handler, how);
    tl.cleanups.push(() => node.removeEventListener(type, handler, how));
  };
  return tl;
}
function stepRanges(data) {
  const isStep = new Set(data.header.step_names);
  const steps = [];
  if (!isStep.size) return steps;
  for (let i = 0; i < data.n; i++) {
    if (isStep.has(data.name[i]) && data.header.lanes[data.lane[i]].kind === "host") {
      steps.push({ t0: data.start[i], t1: data.start[i] + data.dur[i], label: data.header.names[data.name[i]] });
    }
  }
  return steps.length > TL_MOST_STEPS ? [] : steps.sort((a, b) => a.t0 - b.t0);
}
function setTimelineTheme(tl, mode) {
  tl.mode = mode === "dark" ? "dark" : "light";
  usePalette(tl, tl.mode);
  styleTimelineDom(tl.dom, theme_default[tl.mode]);
  fillLegend(tl.dom, legendEntries(tl));
  askFrame(tl);
}
function setFrameHeight(tl) {
  const wanted = tl.options.height ?? Math.min(TL_TALLEST, Math.max(TL_LOWEST, tl.layout.total + TL_HEAD));
  tl.dom.frame.style.height = `${Math.round(wanted) + 2}px`;
}
function listenToTools(tl, act) {
  const { dom } = tl;
  const press = (button, what) => tl.listen(button, "click", what);
  press(dom.zoomIn, () => act.zoom(0.5, null));
  press(dom.zoomOut, () => act.zoom(2, null));
  press(dom.fit, act.fit);
  press(dom.next, () => act.nextMatch(1));
  press(dom.previous, () => act.nextMatch(-1));
  tl.listen(dom.frame, "scroll", () => askFrame(tl), { passive: true });
}
function publicFace(tl, act) {
  const quietly = (change) => {
    change();
    askFrame(tl);
  };
  return {
    setTheme: (name) => setTimelineTheme(tl, name),
    fit: act.fit,
    zoomTo: (t0, t1) => act.show([t0, t1]),
    getView: () => [...tl.view],
    select: (i) => quietly(() => {
      tl.selected = i === void 0 ? null : i;
      if (i !== null && i !== void 0) reveal(tl, i);
    }),
    setRange: (t0, t1 = null) => quietly(() => {
      tl.range = t0 === null ? null : [t0, t1];
    }),
    setNames: (names) => {
      tl.names = names === null ? null : new Set(names);
      choose(tl);
    },
    raceOf: (i) => tl.races.find((mark) => mark.event === i && i !== null)?.race ?? null,
    showRace: (race) => quietly(() => showMark(tl, tl.races.find((one) => one.race === race))),
    showSync: (group) => quietly(() => showMark(tl, tl.syncs.find((one) => one.group === group))),
    search: (text) => {
      tl.dom.search.value = text;
      return runSearch(tl, text);
    },
    focus: () => tl.dom.canvas.focus({ preventScroll: true }),
    resize: () => measure(tl),
    boxOf: (i) => boxOf(tl, i),
    stats: () => ({ frames: tl.script.length, script: [...tl.script] }),
    destroy: () => {
      tl.isGone = true;
      cancelAnimationFrame(tl.pending);
      for (const cleanup of tl.cleanups.splice(0)) cleanup();
      tl.dom.host.remove();
    }
  };
}
function showMark(tl, mark) {
  if (!mark) return;
  if (mark.event >= 0) {
    tl.focused = mark.event;
    reveal(tl, mark.event);
  } else if (mark.at < tl.view[0] || mark.at > tl.view[1]) {
    const half = (tl.view[1] - tl.view[0]) / 2;
    moveTo(tl, [mark.at - half, mark.at + half]);
  }
}
function boxOf(tl, i) {
  const frame = frameOf(tl);
  const lane = tl.data.lane[i];
  if (tl.rows.row[i] >= tl.layout.shown[lane]) return null;
  const x = frame.x(tl.data.start[i]);
  return { x, y: frame.y(lane, tl.rows.row[i]), width: tl.data.dur[i] * frame.scale, height: TL_ROW - 1 };
}

// js/app/app.js
var FOLLOW_MS = 120;
function createApp(root, source) {
  const app = { root, source, store: createSelectionStore(), panels: {}, cleanups: [], isOpen: true };
  app.theme = uiPageTheme();
  root.classList.add("cudalens");
  root.dataset.theme = app.theme;
  root.dataset.state = "loading";
  app.parts = buildSkeleton(app);
  app.cleanups.push(uiWatchTheme((theme) => setAppTheme(app, theme)));
  app.ready = startApp(app).catch((error) => showAppError(app, error));
  return {
    ready: app.ready,
    get data() {
      return app.data;
    },
    panels: app.panels,
    selection: app.store,
    // What is said in the timeline's place until it is there.
    say: (text) => {
      app.parts.status.textContent = text;
    },
    setTheme: (theme) => setAppTheme(app, theme),
    destroy: () => destroyApp(app)
  };
}
function buildSkeleton(app) {
  const { facts } = app.source;
  const parts = {
    verdict: uiElement("p", { class: "cl-verdict" }, ...verdictParts(facts.verdict)),
    bar: uiElement("div", { class: "cl-bar", hidden: true }),
    timeline: uiElement("div", { class: "cl-timeline" }),
    metrics: uiElement("section", { class: "cl-metrics", "aria-label": "Readings of the GPUs", hidden: true }),
    findings: uiElement("section", { class: "cudalens-findings", "aria-label": "Findings", hidden: true }),
    syncs: uiElement("section", { class: "cudalens-syncs", "aria-label": "Waits for the GPU", hidden: true }),
    details: uiElement("section", { class: "cl-panel cl-details", "aria-label": "Details of the selected event" }),
    tableHost: uiElement("div", { class: "cl-table-host" }),
    memory: uiElement("section", { class: "cl-panel cl-memory", "aria-label": "Memory curve" }),
    memoryMap: uiElement("section", { class: "cl-memory-map", "aria-label": "Memory", hidden: true }),
    races: uiElement("section", { class: "cl-races", "aria-label": "Races", hidden: true }),
    graphs: uiElement("section", { class: "cl-graphs", "aria-label": "CUDA graphs", hidden: true }),
    message: uiElement("div", { class: "cl-message", role: "alert", hidden: true }),
    status: uiElement("p", { class: "cl-hint cl-status" }, "Loading the timeline…")
  };
  const badge = facts.badge && uiElement("span", { class: "cl-badge" }, facts.badge);
  parts.verdict.prepend(...badge ? [badge, " "] : []);
  const table = uiElement(
    "section",
    { class: "cl-panel cl-table", "aria-label": "Costs by name" },
    uiElement("h3", {}, "Operators and kernels"),
    parts.tableHost
  );
  const found = facts.graphsFirst ? [parts.graphs, parts.races] : [parts.races, parts.graphs];
  app.root.replaceChildren(
    parts.verdict,
    ...noteList(facts.notes),
    parts.message,
    parts.status,
    ...found,
    parts.findings,
    ...facts.memoryFirst ? [parts.memoryMap] : [],
    parts.timeline,
    parts.metrics,
    parts.syncs,
    parts.bar,
    uiElement("div", { class: "cl-columns" }, table, parts.details),
    parts.memory,
    ...facts.memoryFirst ? [] : [parts.memoryMap]
  );
  for (const part of [table, parts.details, parts.memory]) part.hidden = true;
  parts.table = table;
  return parts;
}
function verdictParts(verdict) {
  const at = verdict.indexOf("; ");
  return at < 0 ? [uiElement("strong", {}, verdict)] : [uiElement("strong", {}, verdict.slice(0, at)), verdict.slice(at)];
}
function noteList(notes = []) {
  if (!notes.length) return [];
  return [uiElement("ul", { class: "cl-notes" }, ...notes.map((note) => uiElement("li", {}, note)))];
}
async function startApp(app) {
  const { parts, source, root } = app;
  if (source.facts.hasRaces) await startPanel(app, "list of races", startRaces);
  if (source.facts.hasGraphs) await startPanel(app, "graph tree", startGraphs);
  if (!app.isOpen) return;
  const { memoryMap, memoryFirst, memoryAlone } = source.facts;
  if (memoryFirst) await startPanel(app, "memory map", startMemoryMap);
  if (!source.facts.hasProfile || memoryAlone) {
    await finishWithoutEvents(app);
    return;
  }
  app.data = await decodePayload(await source.payload());
  if (!app.isOpen) return;
  source.onData?.();
  parts.status.remove();
  app.panels.timeline = createTimeline(parts.timeline, app.data, {
    theme: app.theme,
    onSelect: (selection) => app.store.set(selection, "timeline"),
    onTime: (view) => followTimeline(app, [...view])
  });
  startMetrics(app);
  startFindings(app);
  startSyncs(app);
  if (memoryMap && !memoryFirst) await startPanel(app, "memory map", startMemoryMap);
  app.store.subscribe((selection, origin) => applySelection(app, selection, origin));
  parts.table.hidden = parts.memory.hidden = false;
  watchWidth(app);
  await nextPaint();
  root.dataset.state = "painted";
  source.onPaint?.();
  await Promise.all([
    startPanel(app, "table", startTable),
    startPanel(app, "memory curve", startMemory),
    startPanel(app, "list of details", async () => await app.data.detailsReady)
  ]);
  if (app.isOpen) root.dataset.state = "ready";
}
async function startRaces(app) {
  const { parts, source } = app;
  const model = JSON.parse(new TextDecoder().decode(await inflate(await source.races())));
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "cudalens-races" });
  const { hasProfile, hasGraphs } = source.facts;
  parts.races.append(...hasProfile || hasGraphs ? [uiElement("h3", {}, "Races")] : [], host);
  parts.races.hidden = false;
  app.panels.races = createRaces(host, model, { onChoose: (race) => app.panels.timeline?.showRace(race.row) });
}
async function startMemoryMap(app) {
  const { parts, source } = app;
  const bytes = await source.memory();
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "mm-host" });
  const tables = source.facts.memoryMap.map(buildMarkup);
  parts.memoryMap.append(...source.facts.memoryFirst ? [] : [uiElement("h3", {}, "Memory")], host, uiElement("div", { class: "cudalens-memory" }, ...tables));
  parts.memoryMap.hidden = false;
  app.panels.memoryMap = await createMemoryMap(host, bytes, { theme: app.theme });
  watchWidth(app);
}
async function startGraphs(app) {
  const { parts, source } = app;
  const model = JSON.parse(new TextDecoder().decode(await inflate(await source.graphs())));
  if (!app.isOpen) return;
  const host = uiElement("div", { class: "cudalens-graphs" });
  const { hasProfile, hasRaces } = source.facts;
  parts.graphs.append(...hasProfile || hasRaces ? [uiElement("h3", {}, "CUDA graphs")] : [], host);
  parts.graphs.hidden = false;
  app.panels.graphs = createGraphs(host, model);
}
async function finishWithoutEvents(app) {
  app.parts.status.remove();
  app.parts.timeline.hidden = true;
  app.source.onData?.();
  await nextPaint();
  app.source.onPaint?.();
  if (app.isOpen && app.root.dataset.state !== "failed") app.root.dataset.state = "ready";
}
var nextPaint = () => new Promise((done) => {
  const timer = setTimeout(done, 250);
  requestAnimationFrame(() => setTimeout(() => {
    clearTimeout(timer);
    done();
  }));
});
async function startPanel(app, name, start) {
  try {
    await start(app);
  } catch (error) {
    if (app.isOpen) showAppError(app, error, `The ${name} cannot be shown`);
  }
}
function startFindings(app) {
  const { parts, source, data } = app;
  if (!source.facts.findings) return;
  parts.findings.append(buildMarkup(source.facts.findings));
  const rows = [...parts.findings.querySelectorAll("tbody tr[data-event]")];
  for (const row of rows) {
    const show = () => {
      const event = data.row.indexOf(Number(row.dataset.event));
      if (event < 0) return;
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
      app.store.set({ event, range: null, names: null }, "findings");
    };
    row.tabIndex = 0;
    row.addEventListener("click", show);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") show();
    });
  }
  parts.findings.hidden = false;
}
function startSyncs(app) {
  const { parts, source } = app;
  if (!source.facts.syncs) return;
  parts.syncs.append(buildMarkup(source.facts.syncs));
  const rows = [...parts.syncs.querySelectorAll("tbody tr")];
  rows.forEach((row, group) => {
    const show = () => {
      for (const other of rows) other.toggleAttribute("data-chosen", other === row);
      app.panels.timeline.showSync(group);
    };
    row.tabIndex = 0;
    row.addEventListener("click", show);
    row.addEventListener("keydown", (event) => {
      if (event.key === "Enter") show();
    });
  });
  parts.syncs.hidden = false;
}
async function startTable(app) {
  const { asset, versions } = app.source;
  const [library, style] = await Promise.all([
    loadLibrary("datatables.js", versions.datatables, asset),
    asset("datatables.css").then(inflate)
  ]);
  if (!app.isOpen) return;
  app.panels.table = createTable(app.parts.tableHost, app.data, {
    library,
    styleSheet: new TextDecoder().decode(style),
    theme: app.theme,
    onNames: (names) => app.store.set({ names }, "table")
  });
  updateTable(app, app.store.get(), "start");
}
function startMetrics(app) {
  const { parts, data, source } = app;
  if (!data.metrics.length) return;
  const host = uiElement("div", { class: "cl-metrics-host" });
  parts.metrics.replaceChildren(uiElement("h3", {}, "GPU readings", uiElement("span", {}, source.facts.metrics ?? "")), host);
  parts.metrics.hidden = false;
  app.panels.metrics = createMetrics(host, data.metrics, data.header.metrics.gauges, {
    theme: app.theme,
    view: data.n ? fitWindow(timelineExtent(data, true)) : seriesWindow(data.metrics)
  });
}
async function startMemory(app) {
  const { parts, data, source } = app;
  const series = memorySeries(data);
  const heading = uiElement("h3", {}, "Memory");
  if (app.panels.memoryMap) {
    parts.memory.hidden = true;
    return;
  }
  if (!series.length) {
    parts.memory.replaceChildren(heading, uiElement("p", { class: "cl-hint" }, source.facts.memoryHint));
    return;
  }
  const host = uiElement("div", { class: "cl-plot-host" });
  parts.memory.replaceChildren(heading, host);
  const library = await loadLibrary("plotly.js", source.versions.plotly, source.asset);
  if (!app.isOpen) return;
  app.panels.memory = createMemory(host, series, {
    Plotly: library.default,
    theme: app.theme,
    view: data.n ? fitWindow(timelineExtent(data, true)) : seriesWindow(series),
    onRange: (range2) => app.store.set({ range: range2 }, "memory")
  });
  await app.panels.memory.ready;
  const { range } = app.store.get();
  if (range) app.panels.memory.setRange(range);
}
function memorySeries(data) {
  return data.memory.map(({ label, ts, allocated }) => {
    const known = [...allocated.keys()].filter((i) => !Number.isNaN(allocated[i]));
    return { label, ts: Float64Array.from(known, (i) => ts[i]), values: Float64Array.from(known, (i) => allocated[i]) };
  }).filter((series) => series.ts.length);
}
function seriesWindow(series) {
  const ends = series.flatMap(({ ts }) => [ts[0], ts[ts.length - 1]]);
  return [Math.min(...ends), Math.max(...ends) + 1];
}
function followTimeline(app, view) {
  app.panels.metrics?.setView(view);
  clearTimeout(app.following);
  app.following = setTimeout(() => app.isOpen && app.panels.memory?.setView(view), FOLLOW_MS);
}
function applySelection(app, selection, origin) {
  const { timeline, memory } = app.panels;
  if (origin !== "timeline") {
    timeline.setRange(...selection.range ?? [null]);
    timeline.setNames(selection.names);
    timeline.select(selection.event);
  }
  if (origin !== "memory") memory?.setRange(selection.range);
  if (selection.range) app.panels.memoryMap?.showStretch(selection.range, app.data.header.t0);
  updateTable(app, selection, origin);
  showDetails(app, selection.event);
  const race = selection.event === null ? null : timeline.raceOf(selection.event);
  if (race !== null) app.panels.races?.choose(race);
  showBar(app, selection);
  app.source.onSelect?.(outward(app.data, selection));
}
function updateTable(app, selection, origin) {
  const { table } = app.panels;
  if (!table) return;
  if (origin !== "table") table.update(selectedMask(app.data, { ...selection, names: null }));
  table.choose(selection.names);
}
function showDetails(app, event) {
  const { details } = app.parts;
  details.hidden = event === null;
  renderDetails(details, app.data, event);
}
function outward(data, { range, event, names }) {
  return {
    range: range && [...range],
    event: event === null ? null : data.row[event],
    names: names && [...names].map((id) => data.header.names[id])
  };
}
function showBar(app, selection) {
  const { bar } = app.parts;
  bar.hidden = app.store.isEmpty();
  if (bar.hidden) return;
  const mask = selectedMask(app.data, selection);
  const number = mask.reduce((sum, one) => sum + one, 0);
  const chips = selectionTexts(app.data, selection).map(([key, text]) => selectionChip(app, key, text));
  bar.replaceChildren(
    uiElement("span", { class: "cl-bar-count" }, `${uiPlural(number, "event")} of ${uiCount(app.data.n)} selected`),
    ...chips,
    uiElement("button", { class: "cl-button cl-clear", type: "button", onclick: () => app.store.clear("bar") }, "Clear selection")
  );
}
function selectionTexts(data, { range, event, names }) {
  const texts = [];
  if (range) texts.push(["range", `${uiDuration(range[0])} – ${uiDuration(range[1])} (${uiDuration(range[1] - range[0])})`]);
  if (event !== null) texts.push(["event", `within ${data.header.names[data.name[event]]}`]);
  if (names) {
    const first = data.header.names[names.values().next().value];
    texts.push(["names", names.size === 1 ? first : `${first} and ${names.size - 1} more`]);
  }
  return texts;
}
function selectionChip(app, key, text) {
  const drop = () => app.store.set({ [key]: null }, "bar");
  return uiElement(
    "span",
    { class: "cl-chip", title: text },
    uiElement("span", {}, text),
    uiElement("button", { type: "button", "aria-label": `Stop selecting ${text}`, onclick: drop }, "×")
  );
}
function watchWidth(app) {
  let width = app.root.clientWidth;
  const observer = new ResizeObserver(() => {
    if (app.root.clientWidth === width) return;
    width = app.root.clientWidth;
    app.panels.memory?.resize();
    app.panels.metrics?.resize();
    app.panels.memoryMap?.resize();
  });
  observer.observe(app.root);
  app.cleanups.push(() => observer.disconnect());
}
function setAppTheme(app, theme) {
  app.theme = theme;
  app.root.dataset.theme = theme;
  for (const panel of Object.values(app.panels)) panel.setTheme(theme);
}
function showAppError(app, error, what = "The live view cannot be shown") {
  const { message, status } = app.parts;
  status.remove();
  message.hidden = false;
  message.append(uiElement("p", {}, `${what}: ${error?.message ?? error}`));
  app.root.dataset.state = "failed";
  app.source.onFail?.();
  console.error(error);
}
function destroyApp(app) {
  app.isOpen = false;
  clearTimeout(app.following);
  for (const panel of Object.values(app.panels)) panel.destroy();
  for (const cleanup of app.cleanups.splice(0)) cleanup();
  app.root.replaceChildren();
}

// js/report.js
function reportBlock(id) {
  return document.getElementById(id).textContent;
}
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}
function startReport() {
  const root = document.getElementById("cudalens-app");
  const still = document.getElementById("cudalens-static");
  const config = JSON.parse(reportBlock("cudalens-facts"));
  globalThis.cudalensReport = createApp(root, {
    ...config,
    payload: async () => fromBase64(reportBlock("cudalens-payload")),
    races: async () => fromBase64(reportBlock("cudalens-races")),
    graphs: async () => fromBase64(reportBlock("cudalens-graphs")),
    memory: async () => fromBase64(reportBlock("cudalens-memory")),
    asset: async (name) => fromBase64(reportBlock(`cudalens-${name}`)),
    onData() {
      still.hidden = true;
      root.hidden = false;
    },
    onPaint: () => performance.mark("cudalens-painted"),
    onFail: () => root.hidden = false
  });
  startThemeButton(document.getElementById("cudalens-theme"));
}
function startThemeButton(button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const page = document.documentElement;
    const shown = page.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
    page.dataset.theme = shown === "dark" ? "light" : "dark";
  });
}
startReport();
