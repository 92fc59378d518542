// What a device held over the whole history.

/** @import { Curves, MemoryData } from "./data.js" */

/**
 * Bytes of a device before the first action and after each, counted backward from the end.
 *
 * @param {MemoryData} data
 * @param {number} device Index into header.devices.
 * @returns {Curves}
 */
export function curvesOf(data, device) {
  const steps = stepsOf(data, device);
  const { allocated_bytes, active_bytes, reserved_bytes } = data.header.devices[device];
  return {
    allocated: summedTo(steps.allocated, allocated_bytes),
    active: summedTo(steps.active, active_bytes),
    reserved: summedTo(steps.reserved, reserved_bytes),
  };
}

/**
 * Changes of each sum by row.
 *
 * @param {MemoryData} data
 * @param {number} device
 * @returns {Curves}
 */
function stepsOf({ allocations, pieces, numRows, header, rest }, device) {
  const [allocated, active, reserved] = [0, 1, 2].map(() => new Float64Array(numRows + 1));
  const add = (/** @type {Float64Array} */ curve, /** @type {number} */ row, /** @type {number} */ bytes) => {
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

/**
 * Running sums that end at `end`, in place.
 *
 * @param {Float64Array} steps
 * @param {number} end
 */
function summedTo(steps, end) {
  let held = end - steps.reduce((sum, step) => sum + step, 0);
  for (let i = 0; i < steps.length; i++) {
    held += steps[i];
    steps[i] = held;
  }
  return steps;
}

/**
 * The row after which a curve was highest first.
 *
 * @param {Float64Array} curve
 */
export function peakRowOf(curve) {
  let best = 0;
  for (let i = 1; i < curve.length; i++) if (curve[i] > curve[best]) best = i;
  return best - 1;
}
