import { expect, it } from "vitest";
import { appended, lastDrawing, MOST_LINES, NO_LINES } from "./logLines";

it("keeps the newest lines, and their numbers", () => {
  const full = appended(
    NO_LINES,
    Array.from({ length: MOST_LINES }, (_, number) => `${number}`),
  );
  const held = appended(full, ["a", "b"]);
  expect([held.first, held.lines.length, held.lines[0], held.lines.at(-1)]).toEqual([2, MOST_LINES, "2", "b"]);
});

it.each([
  ["plain", "plain"],
  ["10%\r20%\r30%", "30%"],
  ["windows\r", "windows"],
])("shows the last drawing of %j", (line, shown) => expect(lastDrawing(line)).toBe(shown));
