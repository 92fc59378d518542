// The keys of the pool map.

import { mmAtAddress, mmBoxes, mmHit, mmLineAt } from "./layout.js";

// From block to block, gaps among them; up and down by lines.
export function mmKey(pool, event, { choose, zoom }) {
  if (!pool.moment?.strips.length || event.altKey || event.ctrlKey || event.metaKey) return;
  const { key } = event;
  const steps = { ArrowRight: 1, ArrowLeft: -1 };
  if (key in steps) choose(mmBeside(pool, steps[key]), true);
  else if (key === "ArrowDown" || key === "ArrowUp") choose(mmAbove(pool, key === "ArrowDown" ? 1 : -1), true);
  else if (key === "Home") choose(mmAtAddress(pool.data, pool.moment, mmOrder(pool)[0], mmBegin(pool, mmOrder(pool)[0])), true);
  else if (key === "End") choose(mmLast(pool, mmOrder(pool).at(-1)), true);
  else if (key === "+" || key === "=") zoom(1.6, null);
  else if (key === "-") zoom(1 / 1.6, null);
  else if (key === "0") zoom(1 / pool.zoom, null);
  else if (key === "Escape" && pool.chosen) choose(null, false);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

const mmOrder = (pool) => pool.groups.flatMap((group) => group.strips);
const mmBegin = (pool, k) => pool.moment.strips[k].addr;

function mmLast(pool, k) {
  const strip = pool.moment.strips[k];
  return mmAtAddress(pool.data, pool.moment, k, strip.addr + strip.bytes - 1);
}

function mmBeside(pool, step) {
  const order = mmOrder(pool);
  const { chosen, moment, data } = pool;
  if (!chosen) return mmAtAddress(data, moment, order[0], mmBegin(pool, order[0]));
  const strip = moment.strips[chosen.strip];
  const next = step > 0 ? chosen.from + chosen.bytes : chosen.from - 1;
  if (next >= strip.addr && next < strip.addr + strip.bytes) return mmAtAddress(data, moment, chosen.strip, next);
  const k = order.indexOf(chosen.strip) + step;
  if (k < 0 || k >= order.length) return chosen;
  return step > 0 ? mmAtAddress(data, moment, order[k], mmBegin(pool, order[k])) : mmLast(pool, order[k]);
}

function mmAbove(pool, step) {
  const { chosen, layout, moment, data } = pool;
  if (!chosen) return mmBeside(pool, 1);
  const box = mmBoxes(moment, layout, chosen).at(step > 0 ? -1 : 0);
  if (!box) return chosen;
  const line = layout.lines[mmLineAt(layout.lines, box.y) + step];
  return (line && mmHit(data, moment, layout, Math.min(box.x + 1, pool.width - 2), line.y + 1)) ??
    (line ? mmHit(data, moment, layout, layout.part.x[line.first], line.y + 1) : chosen);
}
