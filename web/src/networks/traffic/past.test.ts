import { expect, it } from "vitest";
import { forecastWords, poolName, showsCapacity, type Forecast } from "../addresses/forecast";
import { bytesWith, classesIn, gapsIn, nameOf, speedColumns } from "./past";

const AT = ["2026-11-21T10:00:00Z", "2026-11-21T11:00:00Z", "2026-11-21T12:00:00Z", "2026-11-21T13:00:00Z"];
const of = (name: string, sent: number, received = 0) => ({ name, sent, received });
const POINTS = [
  { at: AT[0]!, classes: null },
  { at: AT[1]!, classes: [of("internet", 3_600), of("storage", 0, 36_000)] },
  { at: AT[2]!, classes: null },
  { at: AT[3]!, classes: [] },
];
const PAST = { points: POINTS, intervalSeconds: 3_600 };

it("shows bytes per second, gaps where nothing was recorded, and zero where there was no traffic", () => {
  expect(classesIn(PAST)).toEqual(["storage", "internet"]);
  const [times, internet, storage] = speedColumns(PAST, ["internet", "storage"], "sent");
  expect(times).toEqual(AT.map((at) => Date.parse(at) / 1000));
  expect(internet).toEqual([null, 1, null, 0]);
  expect(storage).toEqual([null, 0, null, 0]);
  expect(speedColumns(PAST, ["storage"], "received")[1]).toEqual([null, 10, null, 0]);
});

it("draws at most four classes, those with most traffic", () => {
  const classes = [1, 2, 3, 4, 5, 6].map((size) => of(`c${size}`, size));
  expect(classesIn({ points: [{ at: AT[0]!, classes }] })).toEqual(["c6", "c5", "c4", "c3"]);
});

it("says how many hours are missing, without those before the first one", () => {
  expect(gapsIn({ ...PAST, hidden: 2 })).toEqual([
    "No server recorded anything in 1 hour; traffic of that time is in the hour after it.",
    "2 runs of teams whose runs you may not list are not shown; the sums by team include them.",
  ]);
  expect(gapsIn({ points: POINTS.slice(0, 2), intervalSeconds: 86_400 })).toEqual([]);
});

it("names a run by its team", () => {
  const row = { name: "bert", namespace: "vision", classes: [of("internet", 5, 7)] };
  expect(nameOf(row)).toBe("vision/bert");
  expect(nameOf({ name: "ada", classes: [] })).toBe("ada");
  expect([bytesWith(row, "internet", "received"), bytesWith(row, "storage", "sent")]).toEqual([7, 0]);
});

const POOL: Forecast = { kind: "pods", cidr: "10.48.0.0/16", cluster: "lyon", unit: "node ranges", used: 56, capacity: 256, state: "not growing", daysKnown: 30 };

it("tells when addresses run out, and says so where that is not known", () => {
  expect(poolName(POOL)).toBe("Pods of lyon, 10.48.0.0/16");
  expect(forecastWords(POOL)).toBe("Its use did not grow in the last 30 days that are known.");
  expect(forecastWords({ ...POOL, state: "too little history", daysKnown: 3 })).toContain("3 of 14 days");
  expect(forecastWords({ ...POOL, state: "full" })).toBe("It is full.");
  const grows = { ...POOL, state: "runs out" as const, perDay: 2, at: "2027-03-01T00:00:00Z", earliest: "2027-02-01T00:00:00Z" };
  expect(forecastWords(grows)).toMatch(/^It grows by 2 node ranges a day and runs out about .*2027 \(between .*2027 and a time in more than ten years, with 95 % confidence\)\.$/);
  expect(forecastWords({ ...grows, latest: "2027-04-01T00:00:00Z" })).toMatch(/between .* and .*2027, with 95 %/);
});

it("draws the capacity unless the use is far below it", () => {
  const history = [{ at: "2026-11-01T00:00:00Z", used: 40 }, { at: "2026-11-02T00:00:00Z", used: 56 }];
  expect(showsCapacity({ ...POOL, history })).toBe(true);
  expect(showsCapacity({ ...POOL, history, capacity: 12_397 })).toBe(false);
  expect(showsCapacity(POOL)).toBe(false);
});
