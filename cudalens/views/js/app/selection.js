// What is selected, and who wants to know. One store per view links the panels.
//   range: [t0, t1] in ns from the trace's start, or null      names: Set of name ids, or null
//   event: index of an event, or null: the event, all beneath it, and the device work launched from there

export function createSelectionStore() {
  let state = { range: null, event: null, names: null };
  const listeners = new Set();
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
    },
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

// 1 for the event `root`, all beneath it in the call tree, and the device work launched from there.
export function beneath(data, root) {
  const inside = new Uint8Array(data.n);
  inside[root] = 1;
  // A parent stands before its children.
  for (let i = root + 1; i < data.n; i++) if (data.parent[i] >= 0 && inside[data.parent[i]]) inside[i] = 1;
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0 && inside[data.launch[i]]) inside[i] = 1;
  return inside;
}

// Whether each event is selected: 1 or 0 per event, or null where everything is.
// An interval is in the range when it overlaps it, an instant when it stands in it.
export function selectedMask(data, { range, event, names }) {
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
