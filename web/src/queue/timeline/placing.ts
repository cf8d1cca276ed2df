/** The timeline in pixels. */
import type { Arrow } from "../../canvas/canvas";
import type { Bar, Timeline } from "./timeline";

export const AXIS_PX = 24;
export const LANE_PX = 22;
/** Pixels between the left edge of a bar, or the line of the present time, and the name. */
const NAME_GAP_PX = 6;
/** A bar that is shorter after the present time has its name at its left edge. */
const NAMED_AFTER_NOW_PX = 96;
export const TITLE_PX = 22;
const GROUP_GAP_PX = 8;
const LEAST_BAR_PX = 3;

export interface PlacedBar extends Bar {
  x: number;
  y: number;
  width: number;
  /** Pixels up to the earlier end of the expected end. */
  sure: number;
}

export interface Placed {
  bars: PlacedBar[];
  titles: { text: string; y: number }[];
  height: number;
}

/** Return the width left of the timeline for the titles of rows; on a narrow page they stand above their rows. */
export function gutterOf(width: number): number {
  return width >= 640 ? 120 : 0;
}

/** Return the place of a time in pixels, also outside of the timeline. */
export function xOf(time: number, from: number, until: number, width: number): number {
  const gutter = gutterOf(width);
  return gutter + ((time - from) / (until - from)) * (width - gutter);
}

/** Place all bars; times before and after the span are cut. */
export function placed({ groups }: Timeline, from: number, until: number, width: number): Placed {
  const gutter = gutterOf(width);
  const toX = (time: number) => Math.round(Math.min(Math.max(xOf(time, from, until, width), gutter), width));
  const bars: PlacedBar[] = [];
  const titles: Placed["titles"] = [];
  let y = AXIS_PX;
  for (const { title, lanes } of groups) {
    titles.push({ text: title, y });
    if (!gutter) y += TITLE_PX;
    for (const lane of lanes) {
      for (const bar of lane.bars) {
        const x = toX(bar.from);
        const end = Math.max(toX(bar.until), x + LEAST_BAR_PX);
        bars.push({ ...bar, x, y, width: end - x, sure: Math.max(0, toX(bar.certain) - x) });
      }
      y += LANE_PX;
    }
    y += groups.length > 40 ? 0 : GROUP_GAP_PX;
  }
  return { bars, titles, height: y };
}

/** Return the index of the bar under a point; -1 if there is none. */
export function barAt({ bars }: Placed, x: number, y: number): number {
  return bars.findIndex((bar) => x >= bar.x && x <= bar.x + bar.width && y >= bar.y && y < bar.y + LANE_PX);
}

/** Return the index of the bar that a key leads to: the next or previous one by time, or the nearest of another lane. */
export function barBeside({ bars }: Placed, from: number, key: Arrow): number {
  const here = bars[from];
  if (!here) return bars.length ? 0 : -1;
  const sign = key === "ArrowLeft" || key === "ArrowUp" ? -1 : 1;
  const isSide = key === "ArrowLeft" || key === "ArrowRight";
  let best = from;
  let least = Infinity;
  bars.forEach((bar, index) => {
    const down = sign * (bar.y - here.y);
    const along = sign * (bar.x - here.x);
    if (isSide ? down !== 0 || along <= 0 : down <= 0) return;
    const distance = isSide ? along : down * 1_000 + Math.abs(bar.x - here.x);
    if (distance < least) [best, least] = [index, distance];
  });
  return best;
}

/** Return the index of the first item that begins at or below `y`; items are sorted by their upper edge. */
export function firstAt(things: readonly { y: number }[], y: number): number {
  let [low, high] = [0, things.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (things[middle]!.y < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The position of a bar's name, in pixels: after the line of the present time if the bar is long enough there, so that the line crosses no text. */
export function roomForName({ x, width }: Pick<PlacedBar, "x" | "width">, present: number): { x: number; width: number } {
  const begins = present > x - NAME_GAP_PX && x + width - present >= NAMED_AFTER_NOW_PX ? Math.max(x, present) : x;
  return { x: begins + NAME_GAP_PX, width: x + width - begins - NAME_GAP_PX - 4 };
}
