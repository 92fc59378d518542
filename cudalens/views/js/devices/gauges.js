// Live gauges: a card per GPU, a bar and a line of the last moments per gauge. The readings are state of the widget,
// which the ipykernel sends from a thread, also while a cell runs. Open views send a message from time to time; without
// one, the kernel stops reading.

import { element, svgElement } from "../shared/dom.js";
import { formatBytes } from "../shared/format.js";
import { uniqueId } from "../shared/model.js";
import { hidePictures } from "../shared/static_pictures.js";
import { formatReading } from "./metrics.js";
import { keepMoment, seenMoments } from "./moments.js";

/** @import { Gauge } from "../payload/payload.js" */
/** @import { WidgetModel } from "../shared/model.js" */
/** @import { Moment } from "./moments.js" */

/** @typedef {Pick<Gauge, "column" | "title" | "unit">} LiveGauge */
/**
 * @typedef {{ label: string, name: string, full: { [column: string]: number | null } }} Gpu `full`: the end of each
 *   scale.
 */
/** @typedef {{ badge?: string, about?: string, notes?: string[], ended?: string }} About */

/**
 * The state of the widget.
 *
 * @typedef {object} GaugesState
 * @property {Gpu[]} _gpus
 * @property {LiveGauge[]} _gauges
 * @property {Partial<Moment>} _moment
 * @property {About} _about
 * @property {string} _picture
 */

/** @typedef {WidgetModel<GaugesState & { [name: string]: unknown }>} GaugesModel */
/** @typedef {ReturnType<typeof gaugeRow>} GaugeRow */
/** @typedef {{ gpu: Gpu, rows: GaugeRow[], slowed: HTMLElement, node: HTMLElement }} Card */

const HEARTBEAT_MS = 5000;
const SPARKLINE = { width: 150, height: 24 };

/**
 * Builds the gauges in `host`.
 *
 * @param {HTMLElement} host
 * @param {GaugesModel} model
 * @returns {() => void} Removes them.
 */
export function createGauges(host, model) {
  const send = createSender(model);
  const parts = buildParts(() => send("stop"));
  host.replaceChildren(parts.root);
  /** @type {Card[]} */
  let cards = [];
  const paint = () => {
    hidePictures(model.get("_picture"), true);
    parts.verdict.textContent = verdictText(model.get("_gpus"), model.get("_gauges"));
    cards.forEach(paintCard);
  };
  const build = () => {
    cards = model.get("_gpus").map((gpu) => gaugeCard(gpu, model.get("_gauges")));
    parts.cards.replaceChildren(...cards.map(({ node }) => node));
    paint();
  };
  const showHistory = (/** @type {{ kind: string, moments: Moment[] }} */ message) => {
    if (message?.kind !== "history") return;
    message.moments.forEach(keepMoment);
    paint();
  };
  const describe = () => showAbout(parts, model.get("_about"));
  const leave = () => send("left");

  keepMoment(model.get("_moment"));
  build();
  describe();
  /** @type {[string, (message: any) => void][]} */
  const listeners = [
    ["msg:custom", showHistory],
    ["change:_gpus", build],
    ["change:_moment", paint],
    ["change:_about", describe],
  ];
  for (const [name, listener] of listeners) model.on(name, listener);
  send("history");
  const timer = setInterval(() => model.get("_about").ended || send("here"), HEARTBEAT_MS);
  window.addEventListener("pagehide", leave);

  return () => {
    clearInterval(timer);
    window.removeEventListener("pagehide", leave);
    for (const [name, listener] of listeners) model.off(name, listener);
    leave();
    hidePictures(model.get("_picture"), false);
  };
}

/**
 * Sends messages of this view to the kernel.
 *
 * @param {GaugesModel} model
 */
function createSender(model) {
  const view = uniqueId();
  return (/** @type {string} */ kind) => {
    try {
      model.send({ kind, view });
    } catch {
      // The kernel is gone, so there is no receiver.
    }
  };
}

/** @param {() => void} onStop */
function buildParts(onStop) {
  const badge = element("span", { class: "cl-gauge-badge" });
  const verdict = element("strong", {});
  const cards = element("div", { class: "cl-gauge-cards" });
  const notes = element("ul", { class: "cl-gauge-notes" });
  const about = element("span", {});
  const button = element("button", { type: "button", onclick: onStop }, "Stop");
  const root = element(
    "div",
    { class: "cudalens-gauges" },
    element("p", { class: "cl-gauge-verdict" }, badge, verdict),
    cards,
    notes,
    element(
      "p",
      { class: "cl-gauge-about" },
      element("span", {}, element("span", { class: "cl-gauge-dot" }), about),
      button,
    ),
  );
  return { root, badge, verdict, cards, notes, about, button };
}

/**
 * @param {ReturnType<typeof buildParts>} parts
 * @param {About} about
 */
function showAbout(parts, { badge = "", about = "", notes = [], ended = "" }) {
  parts.badge.textContent = badge;
  parts.about.textContent = about;
  parts.notes.replaceChildren(...notes.map((note) => element("li", {}, note)));
  parts.root.dataset.state = ended ? "ended" : "live";
  parts.button.hidden = Boolean(ended);
}

/**
 * @param {Gpu} gpu
 * @param {LiveGauge[]} gauges
 * @returns {Card}
 */
function gaugeCard(gpu, gauges) {
  const rows = gauges.map(gaugeRow);
  const slowed = element("p", { class: "cl-gauge-slowed" });
  const head = element(
    "h4",
    { "aria-level": 3 },
    element("span", { class: "cl-gauge-label" }, gpu.label),
    ` ${gpu.name}`,
  );
  const node = element("article", { class: "cl-gauge-card" }, head, ...rows.map((row) => row.node), slowed);
  return { gpu, rows, slowed, node };
}

/**
 * @param {LiveGauge} gauge
 * @param {number} k
 */
function gaugeRow(gauge, k) {
  const value = element("span", { class: "cl-gauge-value" }, "-");
  const fill = element("div", {});
  const line = svgElement("path", { fill: "none", stroke: "currentColor" });
  const viewBox = `0 0 ${SPARKLINE.width} ${SPARKLINE.height}`;
  const spark = svgElement("svg", { class: "cl-gauge-spark", viewBox, preserveAspectRatio: "none" }, line);
  const node = element(
    "div",
    { class: "cl-gauge" },
    element("span", { class: "cl-gauge-title" }, gauge.title),
    value,
    spark,
    element("div", { class: `cl-gauge-bar cl-gauge-${k}` }, fill),
  );
  return { gauge, node, value, fill, line };
}

/**
 * A reading as a number; null where it is not known.
 *
 * @param {number | string | null | undefined} reading
 */
function numberOf(reading) {
  return typeof reading === "number" ? reading : null;
}

/**
 * @param {Card} card
 * @param {number} number Of the GPU.
 */
function paintCard({ gpu, rows, slowed }, number) {
  const moments = seenMoments()
    .filter((moment) => moment.rows.length > number)
    .map((moment) => moment.rows[number]);
  const last = moments.at(-1);
  if (!last) return;
  rows.forEach(({ gauge, value, fill, line }, k) => {
    const known = moments.map((row) => numberOf(row[k]));
    const full = gpu.full[gauge.column] || Math.max(...known.filter((v) => v !== null), 0) || 1;
    const text = gaugeText(gauge, numberOf(last[k]), gpu);
    if (value.textContent !== text) value.textContent = text;
    value.title = text;
    fill.style.width = `${Math.min(100, Math.max(0, (100 * (numberOf(last[k]) ?? 0)) / full)).toFixed(1)}%`;
    line.setAttribute("d", sparkPath(known, full));
  });
  slowed.textContent = last[rows.length] ? `clocks throttled by ${last[rows.length]}` : "";
}

/**
 * @param {LiveGauge} gauge
 * @param {number | null} value
 * @param {Gpu} gpu
 */
function gaugeText(gauge, value, gpu) {
  if (value === null) return "-";
  const text = formatReading(gauge, value);
  const total = gpu.full[gauge.column];
  return gauge.column === "memory_used_bytes" && total ? `${text} of ${formatBytes(total)}` : text;
}

/**
 * @param {(number | null)[]} values
 * @param {number} full
 */
function sparkPath(values, full) {
  const { width, height } = SPARKLINE;
  const step = width / Math.max(values.length - 1, 1);
  const points = values.flatMap((value, k) => {
    if (value === null) return [];
    const y = height - 1 - (height - 2) * Math.min(1, Math.max(0, value / full));
    return [`${(k * step).toFixed(1)} ${y.toFixed(1)}`];
  });
  return points.length ? `M${points.join("L")}` : "M0 0";
}

/**
 * The busiest GPU in one line.
 *
 * @param {Gpu[]} gpus
 * @param {LiveGauge[]} gauges
 */
function verdictText(gpus, gauges) {
  const rows = seenMoments().at(-1)?.rows ?? [];
  if (!gpus.length || !rows.length) return "No GPU is being read";
  const shares = rows.map((row) => numberOf(row[0]));
  let busiest = 0;
  for (const [k, share] of shares.entries()) if ((share ?? -1) > (shares[busiest] ?? -1)) busiest = k;
  const gpu = gpus[busiest] ?? gpus[0];
  const texts = gauges.slice(0, 4).map((gauge, k) => gaugeText(gauge, numberOf(rows[busiest][k]), gpu));
  const share = shares[busiest];
  if (share !== null) texts[0] = share ? `busy ${texts[0]}` : "idle";
  const known = texts.filter((text) => text !== "-").join(", ") || "no value";
  const others = rows.length > 1 ? `; ${rows.length} GPUs, ${share ? "this one the busiest" : "none busier"}` : "";
  return `${gpu.label}: ${known}${others}`;
}
