import { describe, expect, it } from "vitest";
import { ago, duration, exact, inOwnTime, secondsBetween } from "./times";

describe("duration", () => {
  it.each([
    [0, "0 s"],
    [-3, "0 s"],
    [59.9, "59 s"],
    [60, "1 min"],
    [3_599, "59 min"],
    [7_200, "2 h"],
    [200_000, "2 d"],
  ])("is %d s in its largest unit: %s", (seconds, words) => expect(duration(seconds)).toBe(words));
});

it("has no age without a time", () => {
  expect(ago("", 0)).toBe("");
  expect(ago("2026-11-23T10:00:00Z", Date.parse("2026-11-23T10:05:00Z"))).toBe("5 min ago");
  expect(secondsBetween("2026-11-23T10:00:00Z", "")).toBeNull();
});

it("says the times of a sentence as the person's clock does, and leaves the rest as it is", () => {
  const time = "2026-11-23T10:00:00Z";
  expect(inOwnTime(`Attempt 2 at ${time}, when it was quiet for long: 3-4.`)).toBe(`Attempt 2 at ${exact(time)}, when it was quiet for long: 3-4.`);
  expect(inOwnTime("Rank 3 waits in step 2026-11.")).toBe("Rank 3 waits in step 2026-11.");
});
