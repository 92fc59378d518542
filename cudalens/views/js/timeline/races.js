// Races in the timeline: a red edge around the kernel of the later access, and a flag in the ruler above it.

import { TL_HEAD } from "./view.js";

export const RACE_RED = "#e5484d";

// The marks of cudalens/views/timeline/race_marks.py, each with the index of its event (-1 where none is known).
export function raceMarks(data) {
  const first = [0];
  for (const lane of data.header.lanes) first.push(first.at(-1) + lane.count);
  return (data.header.races ?? []).map((mark) => ({ ...mark, event: eventOfMark(data, mark, first) }));
}

function eventOfMark(data, { lane, at, dur }, first) {
  if (lane < 0) return -1;
  for (let i = first[lane]; i < first[lane + 1]; i++) if (data.start[i] === at && data.dur[i] === dur) return i;
  return -1;
}

// Flags of the races in view; the red edges are `outline`d by whoever paints the events.
export function paintRaceFlags(g, tl, { x, t0, t1 }) {
  g.fillStyle = RACE_RED;
  for (const { at } of tl.races) {
    if (at < t0 || at > t1) continue;
    const left = Math.round(x(at));
    g.fillRect(left, TL_HEAD - 14, 1.5, 14);
    g.beginPath();
    g.moveTo(left, TL_HEAD - 14);
    g.lineTo(left + 9, TL_HEAD - 10.5);
    g.lineTo(left, TL_HEAD - 7);
    g.fill();
  }
}
