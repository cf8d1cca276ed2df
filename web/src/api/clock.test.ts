import { expect, it } from "vitest";
import { aheadBy } from "./clock";

const NOW = Date.parse("2026-11-23T10:00:00Z");

it.each([
  ["Mon, 23 Nov 2026 10:00:02 GMT", 0],
  ["Mon, 23 Nov 2026 12:00:00 GMT", 7_200_000],
  ["Mon, 23 Nov 2026 09:00:00 GMT", -3_600_000],
  ["nonsense", 7],
  [null, 7],
])("knows by %j how far the server's clock is ahead: %j ms", (date, expected) => {
  expect(aheadBy(date, NOW, 7)).toBe(expected);
});
