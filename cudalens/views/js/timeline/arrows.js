// Arrows from a launch to the device work that it started: of the events pointed at, in focus or selected; of all in view
// while those are few.

import { placeAt } from "./lod.js";
import { eventBox } from "./frame.js";
import { TL_ROW } from "./view.js";

const TL_MOST_ARROWS = 80;

// For each call the device work that it launched: work[first[i]] to work[first[i + 1] - 1].
export function launchIndex(data) {
  const first = new Uint32Array(data.n + 1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) first[data.launch[i] + 1]++;
  for (let i = 0; i < data.n; i++) first[i + 1] += first[i];
  const work = new Uint32Array(first[data.n]);
  const next = first.slice(0, -1);
  for (let i = 0; i < data.n; i++) if (data.launch[i] >= 0) work[next[data.launch[i]]++] = i;
  return { first, work };
}

// Device work that event i launched, at most `most` of it; or itself where it was launched.
export function launchesOf(tl, i, most = TL_MOST_ARROWS) {
  if (tl.data.launch[i] >= 0) return [i];
  const { first, work } = tl.launches;
  return [...work.subarray(first[i], Math.min(first[i + 1], first[i] + most))];
}

export function paintArrows(g, tl, frame) {
  const strong = new Set();
  for (const i of [tl.hover, tl.focused, tl.selected]) {
    if (i !== null) for (const work of launchesOf(tl, i)) strong.add(work);
  }
  g.globalAlpha = 0.45;
  for (const i of fewInView(tl, frame)) {
    // Arrows from far outside would run together into a smear.
    const from = tl.data.start[tl.data.launch[i]];
    if (!strong.has(i) && from >= frame.t0 && from <= frame.t1) paintArrow(g, tl, frame, i, 1);
  }
  g.globalAlpha = 1;
  for (const i of strong) paintArrow(g, tl, frame, i, 1.8);
}

// Launched device work in view; nothing where it is too much to follow with the eye.
function fewInView(tl, frame) {
  const { index, data } = tl;
  const found = [];
  let seen = 0;
  for (let l = frame.firstLane; l <= frame.lastLane; l++) {
    if (data.header.lanes[l].kind !== "device") continue;
    for (let row = 0; row < tl.layout.shown[l]; row++) {
      const r = index.laneRow[l] + row;
      for (let p = placeAt(index, r, frame.t0); p < index.first[r + 1] && index.s[p] < frame.t1; p++) {
        if (seen++ > 4 * TL_MOST_ARROWS) return [];
        if (data.launch[index.at[p]] >= 0 && found.push(index.at[p]) > TL_MOST_ARROWS) return [];
      }
    }
  }
  return found;
}

function paintArrow(g, tl, frame, i, width) {
  const from = eventBox(tl, frame, tl.data.launch[i]) ?? parentBox(tl, frame, tl.data.launch[i]);
  const to = eventBox(tl, frame, i);
  if (from === null || to === null) return;
  const isDown = to.y > from.y;
  const x0 = from.x + Math.min(from.width / 2, 12);
  const y0 = from.y + (isDown ? TL_ROW - 1 : 0);
  const y1 = to.y + (isDown ? 0 : TL_ROW - 1);
  const bend = Math.min(60, Math.abs(y1 - y0) / 2 + 8) * (isDown ? 1 : -1);
  g.strokeStyle = g.fillStyle = tl.colors.arrow;
  g.lineWidth = width;
  g.beginPath();
  g.moveTo(x0, y0);
  g.bezierCurveTo(x0, y0 + bend, to.x, y1 - bend, to.x, y1);
  g.stroke();
  const tip = isDown ? -6 : 6;
  g.beginPath();
  g.moveTo(to.x, y1);
  g.lineTo(to.x - 3.5, y1 + tip);
  g.lineTo(to.x + 3.5, y1 + tip);
  g.fill();
}

// Where the launch stands when its own row is folded away: at its nearest ancestor that shows.
function parentBox(tl, frame, i) {
  let up = i;
  while (up >= 0 && tl.rows.row[up] >= tl.layout.shown[tl.data.lane[up]]) up = tl.data.parent[up];
  if (up < 0) return null;
  const box = eventBox(tl, frame, up);
  return { x: frame.x(tl.data.start[i]), y: box.y, width: 1 };
}
