// The keys of the pool map: from block to block, gaps among them; up and down by lines.

import { boxesOfHit, hitAtAddress, hitAtPoint, lineAt } from "./layout.js";

/** @import { Hit } from "./layout.js" */
/** @import { Pool, PoolPicture } from "./pool.js" */

/** @typedef {{ choose: (hit: Hit | null, isScrolled: boolean) => void, zoom: (factor: number) => void }} PoolActions */

/**
 * @param {Pool} pool
 * @param {KeyboardEvent} event
 * @param {PoolActions} actions
 */
export function onPoolKey(pool, event, actions) {
  const { picture } = pool;
  if (!picture?.moment.strips.length || event.altKey || event.ctrlKey || event.metaKey) return;
  if (!pressed(pool, picture, event.key, actions)) return;
  event.preventDefault();
  event.stopPropagation();
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {string} key
 * @param {PoolActions} actions
 * @returns {boolean} Whether the key has a meaning.
 */
function pressed(pool, picture, key, { choose, zoom }) {
  const order = stripOrder(picture);
  if (key === "ArrowRight" || key === "ArrowLeft")
    choose(hitBeside(pool, picture, key === "ArrowRight" ? 1 : -1), true);
  else if (key === "ArrowDown" || key === "ArrowUp")
    choose(hitAbove(pool, picture, key === "ArrowDown" ? 1 : -1), true);
  else if (key === "Home") choose(firstHit(pool, picture, order[0]), true);
  else if (key === "End") choose(lastHit(pool, picture, order[order.length - 1]), true);
  else if (key === "+" || key === "=") zoom(1.6);
  else if (key === "-") zoom(1 / 1.6);
  else if (key === "0") zoom(1 / pool.zoom);
  else if (key === "Escape" && pool.chosen) choose(null, false);
  else return false;
  return true;
}

/** @param {PoolPicture} picture */
function stripOrder({ groups }) {
  return groups.flatMap((group) => group.strips);
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {number} k Strip.
 */
function firstHit({ data }, { moment }, k) {
  return hitAtAddress(data, moment, k, moment.strips[k].addr);
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {number} k Strip.
 */
function lastHit({ data }, { moment }, k) {
  const strip = moment.strips[k];
  return hitAtAddress(data, moment, k, strip.addr + strip.bytes - 1);
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {1 | -1} step
 */
function hitBeside(pool, picture, step) {
  const order = stripOrder(picture);
  const { chosen, data } = pool;
  if (!chosen) return firstHit(pool, picture, order[0]);
  const strip = picture.moment.strips[chosen.strip];
  const next = step > 0 ? chosen.from + chosen.bytes : chosen.from - 1;
  if (next >= strip.addr && next < strip.addr + strip.bytes) {
    return hitAtAddress(data, picture.moment, chosen.strip, next);
  }
  const k = order.indexOf(chosen.strip) + step;
  if (k < 0 || k >= order.length) return chosen;
  return step > 0 ? firstHit(pool, picture, order[k]) : lastHit(pool, picture, order[k]);
}

/**
 * @param {Pool} pool
 * @param {PoolPicture} picture
 * @param {1 | -1} step
 */
function hitAbove(pool, picture, step) {
  const { chosen, data, width } = pool;
  const { moment, layout } = picture;
  if (!chosen) return hitBeside(pool, picture, 1);
  const box = boxesOfHit(moment, layout, chosen).at(step > 0 ? -1 : 0);
  const line = box && layout.lines[lineAt(layout.lines, box.y) + step];
  if (!line) return chosen;
  const beside = hitAtPoint(data, moment, layout, Math.min(box.x + 1, width - 2), line.y + 1);
  return beside ?? hitAtPoint(data, moment, layout, layout.part.x[line.first], line.y + 1);
}
