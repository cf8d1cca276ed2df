import { describe, expect, it } from "vitest";
import { lasted, logTicks, ticksOf, timeLabels, timeRange } from "./plot/axes";
import { csvOf } from "./csv";
import { amount, attemptStarts, bandColumns, byName, inPlots, marksOf, ordered, rankColumns, sharedRange, type BandPoint, type RankSeries } from "./series";
import { BAND, lastValues, linesShape, spread } from "./plot/shape";

function point(minute: number, value: number, attempt = 1): BandPoint {
  const extreme = { value, rank: 3, gpu: null };
  const at = new Date(minute * 60_000).toISOString();
  return {
    at,
    attempt,
    count: 4,
    min: extreme,
    p10: value,
    p50: value,
    p90: value,
    max: { ...extreme, value: 2 * value },
  };
}

function rank(name: string, gpu: number | null, values: [number, number][]): RankSeries {
  const samples = values.map(([time, value]) => ({ at: new Date(time * 1000).toISOString(), value }));
  return { name, unit: "%", kind: "gauge", description: "", gpu, device: "", samples };
}

it("leaves a gap where intervals are missing", () => {
  const [times, low, , , , high] = bandColumns([point(1, 5), point(2, 6), point(9, 7)], 60);
  expect(times).toEqual([60, 120, 121, 540]);
  expect(low).toEqual([5, 6, null, 7]);
  expect(high).toEqual([10, 12, null, 14]);
  expect(bandColumns([], 60)).toEqual([[], [], [], [], [], []]);
});

it("puts the GPUs of a rank beside each other", () => {
  const found = byName([
    rank("gpu.used", 0, [
      [0, 1],
      [15, 2],
    ]),
    rank("gpu.used", 1, [[15, 3]]),
  ]);
  expect(rankColumns(found.get("gpu.used") ?? [])).toEqual([
    [0, 15],
    [1, 2],
    [null, 3],
  ]);
});

it("shows what the program wrote first, and no limits", () => {
  const names = ["disk.read", "memory.limit", "processes", "gpu.power", "cpu.used", "gpu.used", "train.loss"];
  const found = ordered(names.map((name) => ({ name }))).map(({ name }) => name);
  expect(found).toEqual(["train.loss", "gpu.used", "cpu.used", "gpu.power", "disk.read", "processes"]);
});

it("knows when an attempt began", () => {
  expect(attemptStarts([point(1, 1), point(2, 1), point(3, 1, 2)])).toEqual([180]);
});

describe("an amount", () => {
  it.each([
    [0, "bytes", "0 B"],
    [1536, "bytes", "1.5 KiB"],
    [3 * 1024 ** 3, "bytes/s", "3 GiB/s"],
    [87.26, "%", "87.3 %"],
    [0.000001, "", "1.00e-6"],
    [4, "count", "4"],
    [614400, "1/s", "614,400/s"],
  ])("%d %s is %s", (value, unit, words) => expect(amount(value, unit)).toBe(words));
});

it("is a table for other programs", () => {
  const series = { name: "cpu.used", unit: "cores", kind: "counter", description: "", points: [point(1, 5)] };
  expect(csvOf([series], { x: "time", y: "linear", smooth: "" }, null).split("\n")[1]).toBe("cpu.used,cores,1970-01-01T00:01:00.000Z,1,4,5,3,5,5,5,10,3");
});

it("has a time axis with dates only where they are needed", () => {
  const noon = new Date(2026, 10, 23, 12).getTime() / 1000;
  const [time, date] = timeLabels([noon, noon + 12 * 3600], 3600);
  expect([time, date]).toEqual([expect.stringContaining("12"), expect.stringContaining("24")]);
  expect(timeLabels([noon], 10)[0]).toContain("00:00");
  expect(timeRange(100, 1000)).toEqual([100, 1000]);
  expect(timeRange(1000, 1000)).toEqual([880, 1000]);
});

describe("several plots on one page", () => {
  const series = [
    { points: [point(1, 1), point(2, 1, 2)] },
    { points: [point(0, 1), point(1, 1), point(3, 1, 2)] },
    { points: [] },
  ] as unknown as Parameters<typeof marksOf>[0];

  it("share a time axis from their first to their last point", () => {
    expect(sharedRange(series.map(({ points }) => points))).toEqual([0, 180]);
    expect(sharedRange([])).toEqual([0, 0]);
  });

  it("mark attempts and checkpoints at the same times", () => {
    expect(marksOf(series, ["1970-01-01T00:02:30Z"])).toEqual({ attempts: [120, 180], checkpoints: [150] });
  });

  it("print the last value of each line, of a band its median's", () => {
    expect(lastValues([[0, 60], [1, null], [7, 8]], linesShape(2))).toEqual([{ line: 0, value: 1 }, { line: 1, value: 8 }]);
    expect(lastValues([[0], [1], [2], [3], [4], [5]], BAND)).toEqual([{ line: 2, value: 3 }]);
    expect(lastValues([[]], linesShape(0))).toEqual([]);
  });

  it("have at most four lines", () => {
    expect(inPlots([0, 1, 2, 3, 4, 5, 6, 7, 8]).map((lines) => lines.length)).toEqual([4, 4, 1]);
  });
});

it.each([
  [0, 70, 7, [0, 10, 20, 30, 40, 50, 60, 70], 10],
  [65, 3_600, 7, [600, 1_200, 1_800, 2_400, 3_000, 3_600], 600],
  [0, 30 * 86_400, 3, [0, 10, 20, 30].map((day) => day * 86_400), 864_000],
])("round times between %d and %d", (from, until, most, times, stepSeconds) => {
  const shift = new Date(from * 1_000).getTimezoneOffset() * 60;
  expect(ticksOf(from + shift, until + shift, most)).toEqual({ times: times.map((time) => time + shift), stepSeconds });
});

describe("the labels of last values", () => {
  it("do not cover each other", () => {
    expect(spread([{ y: 40 }, { y: 98 }, { y: 100 }, { y: 95 }], 12).map(({ y }) => y)).toEqual([100, 88, 76, 40]);
  });
});

describe("a logarithmic axis", () => {
  it.each([
    [0.01, 100, [0.01, 0.1, 1, 10, 100]],
    [1e-8, 1e8, [1e-6, 1e-3, 1, 1e3, 1e6]],
    [0.5, 4, [0.5, 1, 2]],
    [2.1, 2.9, [2.2, 2.4, 2.6, 2.8]],
  ])("from %d to %d has round ticks", (min, max, ticks) => expect(logTicks(min, max)).toEqual(ticks));
});

it.each([
  [0, "0"],
  [59.6, "1 min"],
  [5_400, "1 h 30 min"],
  [90_000, "1 d 1 h"],
  [-30, "−30 s"],
])("%d s since a start are %s", (seconds, words) => expect(lasted(seconds)).toBe(words));
