import { describe, expect, it } from "vitest";
import { chosenTime, costOf, outcomeOf, untilOf, type IdleRun } from "./idle/idle";
import { KINDS, kindsInWords } from "./channels/kinds";

const NOW = Date.parse("2026-11-23T10:00:00Z");
const run = { answer: "asked", keptUntil: "", parkAt: "", gpuHours: 36, cost: 72, currency: "EUR" } as IdleRun;

describe("a question about idle GPUs", () => {
  it.each([
    [run, /^It keeps its GPUs/],
    [{ ...run, parkAt: "2026-11-23T12:30:00Z" }, /^It is parked in 2 h unless/],
    [{ ...run, parkAt: "2026-11-23T09:00:00Z" }, /^It is parked soon/],
    [{ ...run, keptUntil: "2026-11-24T10:00:00Z" }, /^You keep it until/],
    [{ ...run, answer: "parked" }, /being parked/],
    [{ ...run, answer: "unsure" }, /^Perhaps/],
  ])("says what happens without an answer: %#", (found, words) => expect(outcomeOf(found, NOW)).toMatch(words));

  it("says what the idle time cost, if there are prices", () => {
    expect([costOf(run), costOf({ ...run, cost: 0 })]).toEqual(["36 GPU-hours, 72.00 EUR", "36 GPU-hours"]);
  });

  it("is answered with a time", () => {
    expect(untilOf(4, NOW)).toBe("2026-11-23T14:00:00.000Z");
    expect([chosenTime(""), chosenTime("2026-11-23T12:00Z")]).toEqual(["", "2026-11-23T12:00:00.000Z"]);
  });
});

it("names the kinds of a channel, or all", () => {
  expect([kindsInWords(["failed", "idle"]), kindsInWords([...KINDS.keys()])]).toEqual(["failed, idle", "all messages"]);
});
