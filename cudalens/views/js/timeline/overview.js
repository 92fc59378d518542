// The whole trace in one strip above the ruler: how busy devices and threads were, and which part of it is in view.

import { addBusy } from "./lod.js";
import { TL_OVERVIEW } from "./view.js";

const TL_OVERVIEW_ROWS = 400;

// How busy each stretch of the trace was, 0 to 1, on devices and on threads: the sum over the rows of their lanes (so a
// deep call tree stands taller), as a share of the tallest.
function overviewShares(tl, num) {
  const shares = { device: new Float32Array(num), host: new Float32Array(num) };
  const most = { device: 0, host: 0 };
  tl.data.header.lanes.forEach((lane, l) => {
    for (let r = tl.index.laneRow[l]; r < Math.min(tl.index.laneRow[l + 1], TL_OVERVIEW_ROWS); r++) {
      addBusy(tl.index, r, ...tl.whole, shares[lane.kind]);
    }
  });
  for (const kind of ["device", "host"]) {
    for (const share of shares[kind]) if (share > most[kind]) most[kind] = share;
    if (most[kind] > 0) for (let x = 0; x < num; x++) shares[kind][x] /= most[kind];
  }
  return { shares, most };
}

function renderOverview(tl, width) {
  const picture = document.createElement("canvas");
  const num = Math.max(1, Math.round(width * tl.size.ratio));
  picture.width = num;
  picture.height = Math.round((TL_OVERVIEW - 6) * tl.size.ratio);
  const g = picture.getContext("2d");
  const { shares, most } = overviewShares(tl, num);
  const kinds = ["device", "host"].filter((kind) => most[kind] > 0);
  const height = picture.height / Math.max(kinds.length, 1);
  kinds.forEach((kind, k) => {
    g.fillStyle = tl.tones.css[kind === "device" ? 0 : tl.hostTone];
    for (let x = 0; x < num; x++) {
      const tall = shares[kind][x] * (height - 1);
      if (tall > 0) g.fillRect(x, (k + 1) * height - Math.max(1, tall), 1, Math.max(1, tall));
    }
  });
  return picture;
}

export function overviewX(tl, t) {
  const { gutter, width } = tl.size;
  return gutter + ((t - tl.whole[0]) / (tl.whole[1] - tl.whole[0])) * (width - gutter);
}

export function overviewTime(tl, x) {
  const { gutter, width } = tl.size;
  return tl.whole[0] + ((x - gutter) / (width - gutter)) * (tl.whole[1] - tl.whole[0]);
}

export function paintOverview(g, tl, { width, t0, t1 }) {
  const { gutter, ratio } = tl.size;
  const key = `${width} ${ratio} ${tl.mode}`;
  if (tl.overview?.key !== key) tl.overview = { key, picture: renderOverview(tl, width) };
  g.fillStyle = tl.colors.gutter;
  g.fillRect(gutter, 0, width, TL_OVERVIEW);
  g.drawImage(tl.overview.picture, gutter, 3, width, TL_OVERVIEW - 6);
  const left = Math.max(gutter, overviewX(tl, t0));
  const right = Math.min(gutter + width, overviewX(tl, t1));
  g.fillStyle = tl.colors.bg;
  g.globalAlpha = 0.65;
  g.fillRect(gutter, 0, left - gutter, TL_OVERVIEW);
  g.fillRect(right, 0, gutter + width - right, TL_OVERVIEW);
  g.globalAlpha = 1;
  g.strokeStyle = tl.colors.muted;
  g.lineWidth = 1;
  const slim = Math.max(3, right - left);
  g.strokeRect(Math.min(left, gutter + width - slim) + 0.5, 0.5, slim - 1, TL_OVERVIEW - 1);
}
