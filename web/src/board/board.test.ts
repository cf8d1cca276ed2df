import { expect, it } from "vitest";
import { largestFirst, monthInWords, othersInWords, partsOf, type Holding, type MonthUsage } from "./board";

it("has a bar of all GPUs", () => {
  const parts = partsOf({ type: "h100", total: 16, used: 8, idle: 2, free: 8, broken: 0 });
  expect(parts.map(({ word, gpus }) => [word, gpus])).toEqual([
    ["at work", 6],
    ["idle", 2],
    ["free", 8],
  ]);
});

it("shows the largest holders first, and the oldest of equal ones", () => {
  const held = (owner: string, gpus: number, since: string) => ({ owner, gpus, since }) as Holding;
  const found = largestFirst([held("b", 1, "2"), held("a", 1, "2"), held("a", 1, "1"), held("c", 8, "3")]);
  expect(found.map(({ owner, since }) => owner + since)).toEqual(["c3", "a1", "a2", "b2"]);
});

it("tells the use of a month in a sentence", () => {
  const month = { since: "2026-10-22T12:00:00Z", until: "2026-11-21T12:00:00Z" } as MonthUsage;
  const told = (gpuHours: number) => monthInWords({ ...month, gpuSeconds: 3_600 * gpuHours });
  expect(told(0)).toBe("No run had GPUs.");
  expect(told(10)).toBe("Runs had GPUs for 10 GPU-hours: fewer than 0.1 GPUs at any time on average.");
  expect(told(720)).toBe("Runs had GPUs for 720 GPU-hours: 1 GPU at any time on average.");
  expect(told(12_600)).toBe("Runs had GPUs for 12,600 GPU-hours: 17.5 GPUs at any time on average.");
});

it("says what the rows hold that are not shown at first", () => {
  const holding = (gpus: number, idle: number) => ({ owner: "ada", namespace: "vision", type: "h100", gpus, idle, since: "" });
  expect(othersInWords([holding(1_000, 0), holding(24, 0)])).toBe("Show 2 more, with 1,024 GPUs");
  expect(othersInWords([holding(8, 4), holding(8, 0)])).toBe("Show 2 more, with 16 GPUs, 4 of them idle");
});
