// The whole trace in one strip above the ruler: how busy devices and threads were, and which part of it is in view.

import { contextOf } from "../shared/dom.js";
import { addBusy } from "./lod.js";
import { OVERVIEW_HEIGHT } from "./view.js";

/** @import { Frame } from "./frame.js" */
/** @import { Timeline } from "./state.js" */

const KINDS = /** @type {const} */ (["device", "host"]);

const MAX_OVERVIEW_ROWS = 400;

/**
 * How busy each stretch of the trace was, 0 to 1, on devices and on threads: the sum over the rows of their lanes (a
 * deep call tree is taller), as a share of the tallest.
 *
 * @param {Timeline} timeline
 * @param {number} num
 */
function overviewShares(timeline, num) {
  const shares = { device: new Float32Array(num), host: new Float32Array(num) };
  const most = { device: 0, host: 0 };
  timeline.data.header.lanes.forEach((lane, l) => {
    for (let r = timeline.index.laneRow[l]; r < Math.min(timeline.index.laneRow[l + 1], MAX_OVERVIEW_ROWS); r++) {
      addBusy(timeline.index, r, timeline.whole, shares[lane.kind]);
    }
  });
  for (const kind of KINDS) {
    for (const share of shares[kind]) if (share > most[kind]) most[kind] = share;
    if (most[kind] > 0) for (let x = 0; x < num; x++) shares[kind][x] /= most[kind];
  }
  return { shares, most };
}

/**
 * @param {Timeline} timeline
 * @param {number} width
 */
function renderOverview(timeline, width) {
  const picture = document.createElement("canvas");
  const num = Math.max(1, Math.round(width * timeline.size.ratio));
  picture.width = num;
  picture.height = Math.round((OVERVIEW_HEIGHT - 6) * timeline.size.ratio);
  const context = contextOf(picture);
  const { shares, most } = overviewShares(timeline, num);
  const kinds = KINDS.filter((kind) => most[kind] > 0);
  const height = picture.height / Math.max(kinds.length, 1);
  kinds.forEach((kind, k) => {
    context.fillStyle = timeline.tones.css[kind === "device" ? 0 : timeline.hostTone];
    for (let x = 0; x < num; x++) {
      const tall = shares[kind][x] * (height - 1);
      if (tall > 0) context.fillRect(x, (k + 1) * height - Math.max(1, tall), 1, Math.max(1, tall));
    }
  });
  return picture;
}

/**
 * @param {Timeline} timeline
 * @param {number} t
 */
export function overviewX(timeline, t) {
  const { gutter, width } = timeline.size;
  return gutter + ((t - timeline.whole[0]) / (timeline.whole[1] - timeline.whole[0])) * (width - gutter);
}

/**
 * @param {Timeline} timeline
 * @param {number} x
 */
export function overviewTime(timeline, x) {
  const { gutter, width } = timeline.size;
  return timeline.whole[0] + ((x - gutter) / (width - gutter)) * (timeline.whole[1] - timeline.whole[0]);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Timeline} timeline
 * @param {Frame} frame
 */
export function paintOverview(context, timeline, { width, t0, t1 }) {
  const { gutter, ratio } = timeline.size;
  const key = `${width} ${ratio} ${timeline.mode}`;
  if (timeline.overview?.key !== key) timeline.overview = { key, picture: renderOverview(timeline, width) };
  context.fillStyle = timeline.colors.gutter;
  context.fillRect(gutter, 0, width, OVERVIEW_HEIGHT);
  context.drawImage(timeline.overview.picture, gutter, 3, width, OVERVIEW_HEIGHT - 6);
  const left = Math.max(gutter, overviewX(timeline, t0));
  const right = Math.min(gutter + width, overviewX(timeline, t1));
  context.fillStyle = timeline.colors.bg;
  context.globalAlpha = 0.65;
  context.fillRect(gutter, 0, left - gutter, OVERVIEW_HEIGHT);
  context.fillRect(right, 0, gutter + width - right, OVERVIEW_HEIGHT);
  context.globalAlpha = 1;
  context.strokeStyle = timeline.colors.muted;
  context.lineWidth = 1;
  const slim = Math.max(3, right - left);
  context.strokeRect(Math.min(left, gutter + width - slim) + 0.5, 0.5, slim - 1, OVERVIEW_HEIGHT - 1);
}
