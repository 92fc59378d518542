// Format durations, sizes, shares and counts as text, as cudalens/analysis/units.py does.

/** @typedef {number | null | undefined} Quantity A number; null, undefined or NaN where it is unknown. */

/**
 * Three significant digits.
 *
 * @param {number} value
 */
function threeDigits(value) {
  return value >= 999.5 ? value.toFixed(0) : value.toPrecision(3);
}

/** @type {[number, string][]} */
const TIME_UNITS = [
  [1e9, "s"],
  [1e6, "ms"],
  [1e3, "µs"],
];

/** @type {[number, string][]} */
const BYTE_UNITS = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
];

/**
 * @param {Quantity} ns
 * @returns {string}
 */
export function formatDuration(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "-";
  if (ns < 0) return `-${formatDuration(-ns)}`;
  if (ns >= 119.5e9) {
    const seconds = Math.round(ns / 1e9);
    return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  }
  for (const [scale, unit] of TIME_UNITS) {
    if (ns >= 0.9995 * scale) return `${threeDigits(ns / scale)} ${unit}`;
  }
  return ns >= 0.9995 || ns === 0 ? `${ns.toFixed(0)} ns` : `${Number(ns.toPrecision(2))} ns`;
}

/**
 * @param {Quantity} bytes
 * @returns {string}
 */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined || Number.isNaN(bytes)) return "-";
  if (bytes < 0) return `-${formatBytes(-bytes)}`;
  for (const [scale, unit] of BYTE_UNITS) {
    if (bytes >= 0.9995 * scale) return `${threeDigits(bytes / scale)} ${unit}`;
  }
  return `${bytes.toFixed(0)} B`;
}

/** @param {Quantity} value In percent. */
export function formatPercent(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "-";
  if (value > 0 && value < 0.1) return "<0.1 %";
  return value < 9.95 ? `${value.toFixed(1)} %` : `${value.toFixed(0)} %`;
}

/** @param {number} number */
export function formatCount(number) {
  return number.toLocaleString("en-US");
}

/**
 * A count with its noun: "1 event", "2 events".
 *
 * @param {number} number
 * @param {string} noun
 */
export function formatPlural(number, noun) {
  return `${formatCount(number)} ${noun}${number === 1 ? "" : "s"}`;
}
