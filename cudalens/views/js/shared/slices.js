// Work in slices: a generator that yields after each slice, so that a page can paint between two of them.

/** @typedef {() => Generator<void> | void} Step Work, in slices or at once. */

// Events of a slice: some milliseconds, even before the browser has compiled the code.
export const SLICE = 65_536;
// How much of a frame slices may take, ms.
const BUDGET_MS = 6;

/**
 * Carries out all slices at once.
 *
 * @template T
 * @param {Generator<void, T>} work
 * @returns {T} What the work returns.
 */
export function finish(work) {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
  }
}

/** @param {Step[]} steps */
export function runNow(steps) {
  for (const step of steps) {
    const work = step();
    if (work) finish(work);
  }
}

/**
 * Carries out one of `steps` a frame, or a part of one, so that frames stay short.
 *
 * @param {Step[]} steps
 * @param {() => Promise<void>} nextFrame
 * @param {() => boolean} isStale Whether the rest is no longer of use.
 */
export async function runInFrames(steps, nextFrame, isStale) {
  for (const step of steps) {
    await nextFrame();
    if (isStale()) return;
    const work = step();
    let began = performance.now();
    while (work && !work.next().done) {
      if (performance.now() - began < BUDGET_MS) continue;
      await nextFrame();
      if (isStale()) return;
      began = performance.now();
    }
  }
}

/**
 * The slices of the places from `first` to before `stop`.
 *
 * @param {number} first
 * @param {number} stop
 * @returns {Generator<[from: number, to: number]>}
 */
export function* slicesOf(first, stop) {
  for (let from = first; from < stop; from += SLICE) yield [from, Math.min(from + SLICE, stop)];
}
