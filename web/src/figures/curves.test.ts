import { describe, expect, it } from "vitest";
import { csvOf } from "./csv";
import { aligned, byStep, curveOf, curveValues, curveViewOf, smoothed, stepAt, stepsOf, type CurveView } from "./curves";
import type { BandPoint, BandSeries } from "./series";

function point(minute: number, value: number, attempt = 1): BandPoint {
  const extreme = { value, rank: 0, gpu: null };
  return { at: new Date(minute * 60_000).toISOString(), attempt, count: 2, min: { ...extreme, value: value - 1 }, p10: value, p50: value, p90: value, max: extreme };
}

const series = (name: string, points: BandPoint[]): BandSeries => ({ name, unit: "", kind: "last", description: "", points });
/** The second attempt goes back from step 300 to step 200. */
const STEPS = series("train.step", [point(0, 100), point(1, 200), point(2, 300), point(5, 200, 2), point(6, 300, 2), point(7, 400, 2)]);
const LOSS = series("train.loss", [point(0, 4), point(1, 3), point(2, 2.5), point(5, 3.1, 2), point(6, 2.4, 2), point(7, 2, 2)]);
const VIEW: CurveView = { x: "time", y: "linear", smooth: "" };

it("stands in the address, without what is usual", () => {
  const view: CurveView = { x: "step", y: "log", smooth: "exp-0.9" };
  expect(curveViewOf(new URLSearchParams(curveValues(view)))).toEqual(view);
  expect(curveValues(VIEW)).toEqual({ x: "", y: "", smooth: "" });
  expect(curveViewOf(new URLSearchParams("x=epoch&y=&smooth=mean-7"))).toEqual(VIEW);
});

describe("smoothing", () => {
  it("is a mean of neighbours, and shorter at the ends", () => {
    expect(smoothed([1, 2, 3, 4, 10], "mean-5")).toEqual([2, 2.5, 4, 4.75, 17 / 3]);
  });

  it("is an exponential mean without a bias to its first value", () => {
    expect(smoothed([4, 4, 4], "exp-0.9").map((value) => value.toFixed(6))).toEqual(["4.000000", "4.000000", "4.000000"]);
    expect(smoothed([0, 1], "exp-0.6")[1]).toBeCloseTo(0.625);
  });

  it("leaves gaps", () => expect(smoothed([1, null, 3], "mean-5")).toEqual([2, null, 2]));
});

describe("steps", () => {
  const steps = stepsOf([LOSS, STEPS])!;

  it("are known between the first and the last of an attempt", () => {
    expect(stepAt(steps, 1, 60)).toBe(200);
    expect(stepAt(steps, 1, 90)).toBe(250);
    expect([stepAt(steps, 1, 300), stepAt(steps, 2, 60), stepAt(steps, 3, 60)]).toEqual([null, null, null]);
    expect(stepsOf([LOSS])).toBeNull();
  });

  it("order the points of each attempt; of several at one step the last counts", () => {
    const stalled = stepsOf([series("train.step", [point(0, 7), point(1, 7), point(2, 6)])])!;
    const found = byStep([point(0, 1), point(1, 2), point(2, 3)], stalled);
    expect([...found.get(1)!].map(([step, { p50 }]) => [step, p50])).toEqual([[6, 3], [7, 2]]);
  });

  it("have a line for each attempt, the newest with its ranges", () => {
    const { columns, shape, points } = curveOf(LOSS.points, { ...VIEW, x: "step" }, steps, 60);
    expect(columns[0]).toEqual([100, 200, 300, 400]);
    expect(columns[3]).toEqual([undefined, 3.1, 2.4, 2]);
    expect(columns[6]).toEqual([4, 3, 2.5, undefined]);
    expect(shape.lines.map(({ colour }) => colour)).toEqual([null, null, 0, null, null, "grey"]);
    expect(points.get(300)?.attempt).toBe(2);
    expect(points.get(100)?.attempt).toBe(1);
  });

  it("are a column of the CSV, as is the smoothed median of each attempt", () => {
    const rows = csvOf([LOSS, series("cpu.used", [point(0, 1)])], { ...VIEW, x: "step", smooth: "mean-5" }, steps).split("\n");
    expect(rows[0]?.endsWith(",step,smoothed")).toBe(true);
    expect(rows[4]?.split(",").slice(-2).map(Number)).toEqual([200, 2.5]);
    expect(rows[7]?.endsWith(",,")).toBe(true);
  });
});

it("draws the smoothed median over the faint one, each attempt by itself", () => {
  const { columns, shape } = curveOf(LOSS.points, { ...VIEW, smooth: "mean-5" }, null, 60);
  expect(shape.lines[2]).toEqual({ colour: 0, isFaint: true });
  expect(shape.lines[5]).toEqual({ colour: 0, hasLast: true });
  expect(columns[6]?.filter((value) => value !== null).map((value) => value?.toFixed(2))).toEqual(["3.17", "3.17", "3.17", "2.50", "2.50", "2.50"]);
});

describe("a logarithmic axis", () => {
  it("leaves out values of 0 and below, and says so", () => {
    const found = curveOf([point(0, 10), point(1, 0), point(2, 1)], { ...VIEW, y: "log" }, null, 60);
    expect(found.isLog).toBe(true);
    expect(found.columns[3]).toEqual([10, null, 1]);
    expect(found.columns[1]).toEqual([9, 1, 1]);
    expect(found.notes).toEqual(["1 value of 0 or less is not drawn: a logarithmic axis has no place for it."]);
  });

  it("is linear without any value above 0", () => {
    const found = curveOf([point(0, -1)], { ...VIEW, y: "log" }, null, 60);
    expect([found.isLog, found.notes[0]]).toEqual([false, "No value is above 0, so the axis is linear."]);
  });
});

it("puts lines with places of their own over common places", () => {
  expect(aligned([[[2, [1]], [4, [null]]], [[1, [5]], [4, [6]]]])).toEqual([[1, 2, 4], [undefined, 1, null], [5, undefined, 6]]);
  expect(aligned([])).toEqual([[]]);
});
