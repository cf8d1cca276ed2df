/** Where the points of a scatter plot lie. */
import { placeOn, type Scale } from "./scales";
import type { Trial } from "../trials/trials";

export interface Points {
  xs: Float64Array;
  /** NaN, as in `xs`, for a trial that has no value on one of the axes. */
  ys: Float64Array;
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export const LEFT_PX = 64;
export const FOOT_PX = 40;
const TOP_PX = 12;
const RIGHT_PX = 20;
const NEAR_PX = 10;

/** Return the places of the trials' points. */
export function pointsOf(trials: readonly Trial[], x: { name: string; scale: Scale }, y: { name: string; scale: Scale }, width: number, height: number): Points {
  const frame = { left: LEFT_PX, right: Math.max(LEFT_PX + 1, width - RIGHT_PX), top: TOP_PX, bottom: height - FOOT_PX };
  const [xs, ys] = [new Float64Array(trials.length).fill(NaN), new Float64Array(trials.length).fill(NaN)];
  trials.forEach((trial, index) => {
    const [across, up] = [placeOn(x.scale, trial.values.get(x.name)), placeOn(y.scale, trial.values.get(y.name))];
    if (across === null || up === null) return;
    xs[index] = frame.left + across * (frame.right - frame.left);
    ys[index] = frame.bottom - up * (frame.bottom - frame.top);
  });
  return { xs, ys, ...frame };
}

/** Return the index of the point nearest to a place; -1 if none is near. */
export function pointAt({ xs, ys }: Points, x: number, y: number): number {
  let best = -1;
  let nearest = NEAR_PX;
  xs.forEach((at, index) => {
    const distance = Math.hypot(at - x, (ys[index] ?? NaN) - y);
    if (distance <= nearest) [best, nearest] = [index, distance];
  });
  return best;
}

/** Return the index of the next point in a direction: the one nearest to the right, left, above or below. */
export function pointBeside(points: Points, from: number, key: "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown"): number {
  const along = key === "ArrowLeft" || key === "ArrowRight" ? points.xs : points.ys;
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  const placeOf = (index: number) => sign * (along[index] ?? NaN);
  const isThere = (index: number) => !Number.isNaN(placeOf(index));
  const start = from >= 0 && isThere(from) ? placeOf(from) : -Infinity;
  let best = -1;
  for (let index = 0; index < along.length; index++) {
    if (!isThere(index) || index === from) continue;
    const comes = placeOf(index) > start || (placeOf(index) === start && index > from);
    if (comes && (best < 0 || placeOf(index) < placeOf(best))) best = index;
  }
  return best < 0 ? from : best;
}
