// Compute what the payload of events does not send: times, the call tree, rows of the frame and launches.

/** @import { Ints } from "./codec.js" */
/** @import { Lane, TraceData } from "./payload.js" */
/** @typedef {Pick<TraceData, "n" | "start" | "dur" | "flags" | "header">} Times */

// Bits of data.flags: no duration by nature; folded into its caller by averaging; in no call tree; launched by a call; a
// Python call in which the thread only waits.
export const EVENT_FLAGS = { instant: 1, folded: 2, outside: 4, launched: 8, waiting: 16 };

/**
 * Start and duration of every event, ns, from the columns of nesting() in cudalens/views/timeline/payload_codec.py.
 *
 * @param {Lane[]} lanes
 * @param {number} n
 * @param {Ints} closed Events that end before each one begins.
 * @param {Ints} gap From the end of the event before to each start, ns.
 * @param {Ints} tail From the end of the last child to each end, ns.
 */
export function unfoldTimes(lanes, n, closed, gap, tail) {
  const start = new Float64Array(n);
  const dur = new Float64Array(n);
  /** @type {number[]} */
  const open = [];
  /** @type {number[]} */
  const lastEnd = [];
  const close = () => {
    const row = /** @type {number} */ (open.pop());
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

/**
 * Self time by the call tree of frames/tree.py: the parent is the nearest earlier event of the host lane that ends no
 * earlier and later than the start. Also that parent, -1 for roots, device work and events outside of any tree.
 *
 * @param {Times} data
 */
export function deriveTree({ n, start, dur, flags, header }) {
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

/**
 * Index of the call that launched each event; -1 where there is none.
 *
 * @param {number} n
 * @param {Uint8Array} flags
 * @param {Ints} kind
 * @param {Ints} launchers Kinds that launch.
 * @param {Ints} steps From one launching call to the next, less one.
 */
export function unfoldLaunches(n, flags, kind, launchers, steps) {
  const launch = new Int32Array(n).fill(-1);
  const launches = new Set(launchers);
  /** @type {number[]} */
  const calls = [];
  for (let i = 0; i < n; i++) if (launches.has(kind[i])) calls.push(i);
  for (let i = 0, k = 0, ordinal = -1; i < n; i++) {
    if (!(flags[i] & EVENT_FLAGS.launched)) continue;
    ordinal += steps[k++] + 1;
    launch[i] = calls[ordinal];
  }
  return launch;
}
