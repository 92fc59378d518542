// Read the columns of memory actions, GPU readings and details of events.

import { readBigInts, readInts, readTexts } from "./codec.js";

/** @import { Payload } from "./codec.js" */
/** @import { DeviceReadings, Gauge, MemorySeries, TraceHeader } from "./payload.js" */

/**
 * Actions of the allocator by device.
 *
 * @param {Payload<TraceHeader>} payload
 * @returns {Promise<MemorySeries[]>}
 */
export async function readMemory(payload) {
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
    const part = (/** @type {Float64Array} */ column) => Float64Array.from(rows, (i) => column[i]);
    return {
      label,
      actions,
      ts: part(ts),
      bytes: part(bytes),
      allocated: part(allocated),
      reserved: part(reserved),
      action: part(action),
      event: part(event),
    };
  });
}

/**
 * Turns the steps of each device's totals into the totals, bytes; NaN where none was recorded.
 *
 * @param {Float64Array} column
 * @param {Float64Array} device
 * @param {number} numDevices
 */
function undoSteps(column, device, numDevices) {
  const before = new Float64Array(numDevices);
  for (let i = 0; i < column.length; i++) {
    before[device[i]] += column[i];
    const value = before[device[i]];
    column[i] = value === 0 ? Number.NaN : value - 1;
  }
}

/**
 * Readings of each GPU.
 *
 * @param {Payload<TraceHeader>} payload
 * @returns {Promise<DeviceReadings[]>}
 */
export async function readMetrics(payload) {
  const { devices, gauges, reasons } = payload.header.metrics;
  return Promise.all(devices.map((label, k) => readDevice(payload, gauges, { label, k, reasons })));
}

/**
 * @param {Payload<TraceHeader>} payload
 * @param {Gauge[]} gauges
 * @param {{ label: string, k: number, reasons: string[] }} device
 * @returns {Promise<DeviceReadings>}
 */
async function readDevice(payload, gauges, { label, k, reasons }) {
  const names = ["ts", "slowed_by", ...gauges.map(({ column }) => column)];
  const [steps, slowed, ...columns] = await Promise.all(names.map((name) => readInts(payload, `met.${k}.${name}`)));
  const ts = Float64Array.from(steps);
  for (let i = 1; i < ts.length; i++) ts[i] += ts[i - 1];
  const decoded = gauges.map(({ scale }, g) =>
    Float64Array.from(columns[g], (value) => (value === 0 ? Number.NaN : (value - 1) / scale)),
  );
  return {
    label,
    ts,
    slowed,
    reasons,
    values: Object.fromEntries(gauges.map(({ column }, g) => [column, decoded[g]])),
  };
}

/**
 * Adds the detail columns to `columns`.
 *
 * @param {Payload<TraceHeader>} payload
 * @param {Map<string, (event: number) => string | number | null>} columns
 */
export async function readDetails(payload, columns) {
  for (const { name, coding } of payload.header.details) {
    columns.set(name, await (coding === "dictionary" ? readDictionary(payload, name) : readIds(payload, name)));
  }
}

/**
 * @param {Payload<TraceHeader>} payload
 * @param {string} name
 */
async function readDictionary(payload, name) {
  const [codes, values] = await Promise.all([readInts(payload, `${name}.codes`), readTexts(payload, `${name}.values`)]);
  return (/** @type {number} */ i) => (codes[i] ? values[codes[i] - 1] : null);
}

/**
 * @param {Payload<TraceHeader>} payload
 * @param {string} name
 */
async function readIds(payload, name) {
  const [known, steps] = await Promise.all([readInts(payload, `${name}.known`), readBigInts(payload, `${name}.steps`)]);
  for (let k = 1; k < steps.length; k++) steps[k] += steps[k - 1];
  const ordinal = new Uint32Array(known.length);
  for (let i = 0, k = 0; i < known.length; i++) ordinal[i] = known[i] ? ++k : 0;
  return (/** @type {number} */ i) => (ordinal[i] ? String(BigInt.asIntN(64, steps[ordinal[i] - 1])) : null);
}
