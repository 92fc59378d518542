// Going from event to event without a mouse, and from match to match of a search.

import { eventAt, placeAt } from "./lod.js";
import { launchesOf } from "./arrows.js";

// Place of event i in the rows; its row is known, so only that row is searched.
function placeOf(tl, i) {
  const r = tl.index.laneRow[tl.data.lane[i]] + tl.rows.row[i];
  let p = placeAt(tl.index, r, tl.data.start[i]);
  // Zero-length events may share one start.
  while (p < tl.index.first[r + 1] && tl.index.at[p] !== i) p++;
  return { r, p };
}

// The event beside event i in a direction: "left", "right" on its row, "up" to its caller or the lane above, "down" to
// the first event beneath it or the lane below; i itself where there is none.
export function neighbour(tl, i, direction) {
  if (direction === "left" || direction === "right") {
    const { r, p } = placeOf(tl, i);
    const q = direction === "left" ? p - 1 : p + 1;
    return q >= tl.index.first[r] && q < tl.index.first[r + 1] ? tl.index.at[q] : i;
  }
  const lane = tl.data.lane[i];
  const row = tl.rows.row[i] + (direction === "up" ? -1 : 1);
  const middle = tl.data.start[i] + tl.data.dur[i] / 2;
  if (row >= 0 && row < tl.layout.shown[lane]) {
    const inside = direction === "up" ? tl.data.start[i] : middle;
    const found = nearestInRow(tl, lane, row, inside, direction === "up" ? 0 : tl.data.dur[i] / 2);
    if (found >= 0) return found;
  }
  return otherLane(tl, lane, direction === "up" ? -1 : 1, middle) ?? i;
}

function otherLane(tl, lane, by, t) {
  for (let l = lane + by; l >= 0 && l < tl.layout.shown.length; l += by) {
    const found = nearestInRow(tl, l, 0, t, Infinity);
    if (found >= 0) return found;
  }
  return null;
}

// Event of a row at t, or the nearest one that begins no farther than `reach` ns away; -1 where there is none.
export function nearestInRow(tl, lane, row, t, reach) {
  const { index } = tl;
  const r = index.laneRow[lane] + row;
  const exact = eventAt(index, r, t, 0);
  if (exact >= 0) return exact;
  const p = placeAt(index, r, t);
  let best = -1;
  let distance = reach;
  for (const q of [p - 1, p]) {
    if (q < index.first[r] || q >= index.first[r + 1]) continue;
    const away = Math.max(index.s[q] - t, t - index.e[q], 0);
    if (away <= distance) {
      best = index.at[q];
      distance = away;
    }
  }
  return best;
}

// The other end of the launch arrow of event i; i where it has none.
export function acrossLaunch(tl, i) {
  if (tl.data.launch[i] >= 0) return tl.data.launch[i];
  return launchesOf(tl, i, 1)[0] ?? i;
}

// The event to begin with: that of the first visible lane nearest to the middle of the window.
export function firstEvent(tl, lane) {
  const middle = (tl.view[0] + tl.view[1]) / 2;
  for (let l = Math.max(lane, 0); l < tl.layout.shown.length; l++) {
    const found = nearestInRow(tl, l, 0, middle, Infinity);
    if (found >= 0) return found;
  }
  return -1;
}

// What a search finds: the ids of the names that contain `text` (upper and lower case alike) and how many events have them.
export function searchNames(tl, text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return null;
  tl.lowerNames ??= tl.data.header.names.map((name) => name.toLowerCase());
  const isHit = Uint8Array.from(tl.lowerNames, (name) => +name.includes(wanted));
  let count = 0;
  for (let i = 0; i < tl.data.n; i++) count += isHit[tl.data.name[i]];
  return { text: wanted, isHit, count, position: 0 };
}

// The match before or after event `from` in time order (-1: the first or last one in view), and its ordinal.
export function stepMatch(tl, from, by) {
  const { data, search } = tl;
  const isBefore = (a, b) => data.start[a] < data.start[b] || (data.start[a] === data.start[b] && a < b);
  let best = -1;
  let extreme = -1;
  for (let i = 0; i < data.n; i++) {
    if (!search.isHit[data.name[i]]) continue;
    const after = by > 0 ? isBefore : (a, b) => isBefore(b, a);
    if (extreme < 0 || after(i, extreme)) extreme = i;
    const isPast = from >= 0 ? after(from, i) : by > 0 ? data.start[i] >= tl.view[0] : data.start[i] <= tl.view[1];
    if (isPast && (best < 0 || after(i, best))) best = i;
  }
  // Past the last match the first one comes again.
  const found = best >= 0 ? best : extreme;
  let ordinal = 0;
  if (found >= 0) for (let i = 0; i < data.n; i++) ordinal += search.isHit[data.name[i]] && !isBefore(found, i) ? 1 : 0;
  return { found, ordinal };
}
