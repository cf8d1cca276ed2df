/** Where the lines of parallel coordinates lie: one axis a column, one line a trial. */
import { placeOn, type Scale } from "./scales";
import type { Trial } from "../trials/trials";

export interface Axis {
  name: string;
  scale: Scale;
}

export interface Lines {
  axes: readonly Axis[];
  /** The x of each axis. */
  xs: number[];
  top: number;
  bottom: number;
  /** The y of each trial on each axis; NaN if it has no value there. */
  ys: Float64Array[];
}

export const TOP_PX = 40;
export const BOTTOM_PX = 16;
const SIDE_PX = 56;
/** Smallest distance between axes. If there is less room, the canvas scrolls. */
export const LEAST_AXIS_PX = 104;
const NEAR_PX = 8;
const NEAR_AXIS_PX = 10;

/** Return the width that so many axes need. */
export function widthOf(axes: number, room: number): number {
  return Math.max(room, 2 * SIDE_PX + (axes - 1) * LEAST_AXIS_PX);
}

/** Return the places of the trials' lines. */
export function linesOf(trials: readonly Trial[], axes: readonly Axis[], width: number, height: number): Lines {
  const [top, bottom] = [TOP_PX, height - BOTTOM_PX];
  const step = axes.length > 1 ? (width - 2 * SIDE_PX) / (axes.length - 1) : 0;
  const xs = axes.map((_, index) => (axes.length > 1 ? SIDE_PX + index * step : width / 2));
  const ys = trials.map((trial) =>
    Float64Array.from(axes, ({ name, scale }) => {
      const at = placeOn(scale, trial.values.get(name));
      return at === null ? NaN : bottom - at * (bottom - top);
    }),
  );
  return { axes, xs, top, bottom, ys };
}

/** Return the index of the line nearest to a point; -1 if none is near. */
export function lineAt({ xs, ys }: Lines, x: number, y: number): number {
  let after = xs.findIndex((axis) => axis >= x);
  if (after < 0 || x < (xs[0] ?? 0) - NEAR_PX) return -1;
  after = Math.max(1, after);
  const [left = 0, right = 0] = [xs[after - 1], xs[after]];
  const share = right > left ? (x - left) / (right - left) : 0;
  let best = -1;
  let nearest = NEAR_PX;
  ys.forEach((line, index) => {
    const [from = NaN, to = xs.length === 1 ? from : NaN] = [line[after - 1], line[after]];
    const distance = Math.abs(from + share * (to - from) - y);
    if (distance > nearest) return;
    if (distance <= nearest) [best, nearest] = [index, distance];
  });
  return best;
}

/** Return the index of the axis at an x; -1 if none is there. */
export function axisAt({ xs }: Lines, x: number): number {
  return xs.findIndex((axis) => Math.abs(axis - x) <= NEAR_AXIS_PX);
}
