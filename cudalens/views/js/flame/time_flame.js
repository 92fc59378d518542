// Time, or allocated bytes, by call path: of the whole trace or of what is selected, and against another run.

import { selectedMask } from "../app/selection.js";
import { actionButton, buttonChoice } from "../memory/controls.js";
import { element } from "../shared/dom.js";
import { formatBytes, formatDuration, formatPlural } from "../shared/format.js";
import { finish } from "../shared/slices.js";
import { groupOf, NUM_SHADES, nameHash, tonesOf } from "../shared/theme.js";
import { addBaseline } from "./baseline.js";
import { createFlame } from "./flame.js";
import { invertPaths } from "./inverted.js";
import { callPaths, groupingsOf, textOfNode } from "./paths.js";
import { nodeSums, weightsOf } from "./weights.js";

/** @import { Selection } from "../app/selection.js" */
/** @import { TraceData } from "../payload/payload.js" */
/** @import { ThemeName, Tones } from "../shared/theme.js" */
/** @import { Baseline } from "./baseline.js" */
/** @import { FlameView } from "./flame.js" */
/** @import { CallPaths, Grouping } from "./paths.js" */
/** @import { Weight } from "./weights.js" */

/**
 * @typedef {object} TimeFlameOptions
 * @property {ThemeName} theme
 * @property {Baseline | null} baseline Another run to compare with.
 * @property {(event: number) => void} onEvent The user wants to see an event in the timeline.
 */

/**
 * @typedef {object} TimeFlame
 * @property {FlameView} flame
 * @property {CallPaths} paths
 * @property {(selection: Selection) => Generator<void>} update Shows a selection.
 * @property {() => void} shown Its panel shows again: what was selected while it was hidden is drawn.
 * @property {(by: Grouping) => void} setGrouping
 * @property {(isInverted: boolean) => void} setInverted Who calls a kernel or an operator, in place of what it calls.
 * @property {(weight: Weight) => void} setWeight
 * @property {(theme: ThemeName) => void} setTheme
 * @property {() => void} resize
 * @property {() => void} destroy
 */

/**
 * @typedef {object} State
 * @property {TraceData} data
 * @property {Map<string, CallPaths>} known By grouping and direction.
 * @property {boolean} isInverted Whether callers are below what they call.
 * @property {Grouping} by
 * @property {Weight} weight
 * @property {Selection} selection
 * @property {boolean} isCompared
 * @property {Baseline | null} baseline
 * @property {Tones} tones
 */

/** @type {["callers" | "calls", string][]} */
const DIRECTIONS = [
  ["callers", "callers down"],
  ["calls", "who calls it"],
];

/**
 * Builds the flame graph in `host`.
 *
 * @param {HTMLElement} host
 * @param {TraceData} data
 * @param {TimeFlameOptions} options
 * @returns {TimeFlame}
 */
export function createTimeFlame(host, data, { theme, baseline, onEvent }) {
  const [groupings, weights] = [groupingsOf(data), weightsOf(data)];
  /** @type {State} */
  const state = {
    data,
    known: new Map(),
    isInverted: false,
    by: groupings[0][0],
    weight: weights[0]?.[0] ?? "host",
    selection: { range: null, event: null, names: null },
    isCompared: baseline !== null,
    baseline,
    tones: tonesOf(theme),
  };
  const change = (/** @type {Partial<State>} */ changes) => {
    Object.assign(state, changes);
    finish(refresh());
  };
  const by = buttonChoice("By", groupings, state.by, (key) => change({ by: key }));
  const weight = buttonChoice("Width", weights, state.weight, (key) => change({ weight: key }));
  const direction = buttonChoice("From", DIRECTIONS, "callers", (key) => change({ isInverted: key === "calls" }));
  const jump = actionButton("Show in the timeline", "Select the longest call of this node in the timeline", () => {
    const event = longestOf(state, flame.root);
    if (event >= 0) onEvent(event);
  });
  const note = element("p", { class: "mm-muted cl-flame-note", role: "status" });
  const graph = element("div", { class: "cl-flame-graph" });
  host.replaceChildren(
    element("div", { class: "mm-tools" }, by.group, weight.group, direction.group, ...comparison(state, change), jump),
    note,
    graph,
  );
  const flame = createFlame(graph, {
    theme,
    label: "Costs by call path",
    placeholder: "Search names",
    searchLabel: "Search call paths",
    textOf: (node) => textOfNode(data, pathsOf(state), node),
    amountOf: (value, num) => `${formatOf(state)(value)} (%), ${formatPlural(num, unitOf(state))}`,
    format: (value) => formatOf(state)(value),
    notesOf: (node) => [fullName(state, node)],
    colorOf: (node, text) => colorsOf(state, node, text),
    onZoom(node) {
      jump.hidden = node === 0;
    },
  });
  jump.hidden = true;
  let isStale = false;
  let last = 0;
  function* refresh() {
    isStale = host.hidden === true;
    last += 1;
    if (isStale) return;
    const number = last;
    const paths = pathsOf(state);
    const mask = selectedMask(data, { ...state.selection, names: null });
    const { weight: sums, num } = yield* nodeSums(data, paths, state.weight, mask, state.selection.range);
    if (number !== last) return; // something else was chosen between two slices
    const shown = { parent: paths.parent, depth: paths.depth, children: paths.children, weight: sums, num };
    const before = comparedWith(state, paths);
    flame.show(before ? { ...shown, before } : shown);
    note.textContent = noteOf(state, sums[0]);
  }
  finish(refresh());
  return {
    flame,
    get paths() {
      return pathsOf(state);
    },
    *update(selection) {
      state.selection = selection;
      yield* refresh();
    },
    shown() {
      if (isStale) finish(refresh());
      else flame.resize();
    },
    setGrouping(key) {
      by.mark(key);
      change({ by: key });
    },
    setInverted(isInverted) {
      direction.mark(isInverted ? "calls" : "callers");
      change({ isInverted });
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
    destroy: () => flame.destroy(),
  };
}

/** @param {State} state */
function pathsOf(state) {
  const { data, known, by, baseline, isInverted } = state;
  const key = isInverted ? `${by}, inverted` : by;
  const kept = known.get(key);
  if (kept) return kept;
  /** @type {CallPaths} */
  let paths;
  if (isInverted) paths = invertPaths(pathsOf({ ...state, isInverted: false }));
  else {
    paths = callPaths(data, by);
    if (baseline && by === "tree") addBaseline(paths, baseline);
  }
  known.set(key, paths);
  return paths;
}

/**
 * The other run's weights where they can be compared: by call tree, of the whole trace.
 *
 * @param {State} state
 * @param {CallPaths} paths
 */
function comparedWith({ by, weight, selection, isCompared }, paths) {
  if (!isCompared || by !== "tree" || selection.range || selection.event !== null) return undefined;
  return paths.before?.[weight];
}

/**
 * @param {State} state
 * @param {(changes: Partial<State>) => void} change
 */
function comparison(state, change) {
  if (!state.baseline) return [];
  /** @type {["yes" | "no", string][]} */
  const entries = [
    ["yes", `against ${state.baseline.name}`],
    ["no", "this run"],
  ];
  return [buttonChoice("Colours", entries, "yes", (key) => change({ isCompared: key === "yes" })).group];
}

/**
 * @param {State} state
 * @param {number} whole
 */
function noteOf(state, whole) {
  const { range, event } = state.selection;
  const part = range
    ? `of the selected ${formatDuration(range[1] - range[0])}`
    : event === null
      ? "of the whole trace"
      : "within the selected event";
  const against =
    state.isCompared && state.baseline && state.by === "tree" ? "; red: more than in the other run, blue: less" : "";
  return `${formatOf(state)(whole)} ${part}${against}`;
}

/** @param {State} state */
function formatOf({ weight }) {
  return weight === "memory" ? formatBytes : formatDuration;
}

/** @param {State} state */
function unitOf({ weight }) {
  return weight === "memory" ? "allocation" : weight === "device" ? "kernel" : "call";
}

/**
 * The whole name of a node where its text is a short one.
 *
 * @param {State} state
 * @param {number} node
 */
function fullName(state, node) {
  const paths = pathsOf(state);
  const name = node ? paths.labels[paths.label[node]] : "";
  return name === textOfNode(state.data, paths, node) ? "" : name.slice(0, 400);
}

/**
 * @param {State} state
 * @param {number} node
 * @param {string} text
 * @returns {[fill: string, ink: string]}
 */
function colorsOf(state, node, text) {
  const event = pathsOf(state).sample[node];
  const { data, tones } = state;
  const cat = event < 0 ? "python_function" : data.header.cats[data.cat[event]];
  const tone = groupOf(cat, text) * NUM_SHADES + (nameHash(text) % NUM_SHADES);
  return [tones.css[tone], tones.ink[tone]];
}

/**
 * The longest event of a node that counts, or of those below it; -1 where there is none.
 *
 * @param {State} state
 * @param {number} root
 */
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
