// What is selected. One store per view links the panels.

/** @import { TraceData } from "../payload/payload.js" */
/** @import { TimeRange } from "../timeline/view.js" */

/**
 * @typedef {object} Selection
 * @property {TimeRange | null} range ns from the trace's start.
 * @property {number | null} event Index: the event, its descendants, and the device work launched from there.
 * @property {Set<number> | null} names Indices into header.names.
 */

/** @typedef {(selection: Selection, origin: string) => void} SelectionListener */

/**
 * @typedef {object} SelectionStore
 * @property {() => Selection} get
 * @property {() => boolean} isEmpty
 * @property {(changes: Partial<Selection>, origin: string) => void} set `origin` is the panel that made the change.
 * @property {(origin: string) => void} clear
 * @property {(listener: SelectionListener) => () => void} subscribe Returns what ends the subscription.
 */

/** @type {Selection} */
const NOTHING = { range: null, event: null, names: null };

/** @returns {SelectionStore} */
export function createSelectionStore() {
  let state = NOTHING;
  /** @type {Set<SelectionListener>} */
  const listeners = new Set();
  /** @type {SelectionStore} */
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
    },
  };
  return store;
}

/**
 * @param {Selection} a
 * @param {Selection} b
 */
function sameSelection(a, b) {
  return a.event === b.event && sameList(a.range, b.range) && sameList(a.names, b.names);
}

/**
 * @param {Iterable<number> | null} a
 * @param {Iterable<number> | null} b
 */
function sameList(a, b) {
  if (a === null || b === null) return a === b;
  const [x, y] = [[...a], [...b]];
  return x.length === y.length && x.every((value, i) => value === y[i]);
}

/**
 * 1 for the event `root`, its descendants in the call tree, and the device work launched from there.
 *
 * @param {TraceData} data
 * @param {number} root
 */
function descendants({ n, parent, launch, lane, start, dur }, root) {
  const inside = new Uint8Array(n);
  inside[root] = 1;
  // A parent comes before its children, which begin within it on its lane.
  const end = start[root] + dur[root];
  for (let i = root + 1; i < n && lane[i] === lane[root] && start[i] <= end; i++) {
    if (parent[i] >= 0 && inside[parent[i]]) inside[i] = 1;
  }
  for (let i = 0; i < n; i++) if (launch[i] >= 0 && inside[launch[i]]) inside[i] = 1;
  return inside;
}

// The last masks of each trace: several panels show the same selection.
const KEPT_MASKS = 3;
/** @type {WeakMap<TraceData, { selection: Selection, mask: Uint8Array | null }[]>} */
const lastMasks = new WeakMap();

/**
 * Whether each event is selected: 1 or 0 per event, or null where everything is. Not to be changed.
 * An interval is in the range when it overlaps it, an instant when it is inside.
 *
 * @param {TraceData} data
 * @param {Selection} selection
 * @returns {Uint8Array | null}
 */
export function selectedMask(data, selection) {
  const kept = lastMasks.get(data) ?? [];
  const found = kept.find((one) => sameSelection(one.selection, selection));
  if (found) return found.mask;
  const mask = newMask(data, selection);
  lastMasks.set(data, [{ selection: { ...selection }, mask }, ...kept].slice(0, KEPT_MASKS));
  return mask;
}

/**
 * @param {TraceData} data
 * @param {Selection} selection
 * @returns {Uint8Array | null}
 */
function newMask(data, { range, event, names }) {
  if (range === null && event === null && names === null) return null;
  const mask = event === null ? new Uint8Array(data.n).fill(1) : descendants(data, event);
  if (range !== null) keepOverlapping(data, mask, range);
  if (names === null) return mask;
  const wanted = new Uint8Array(data.header.names.length);
  for (const id of names) wanted[id] = 1;
  for (let i = 0; i < data.n; i++) mask[i] &= wanted[data.name[i]];
  return mask;
}

/**
 * Clears the events of `mask` that do not overlap the range, and instants outside of it.
 *
 * @param {TraceData} data
 * @param {Uint8Array} mask
 * @param {TimeRange} range
 */
function keepOverlapping({ n, start, dur }, mask, [t0, t1]) {
  for (let i = 0; i < n; i++) {
    const from = start[i];
    const to = from + dur[i];
    if (from === to ? from < t0 || from > t1 : from >= t1 || to <= t0) mask[i] = 0;
  }
}
