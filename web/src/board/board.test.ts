import { expect, it } from "vitest";
import { largestFirst, partsOf, type Holding } from "./board";

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
