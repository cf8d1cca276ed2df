import { expect, test } from "vitest";
import { listed } from "./listed";
import type { Row } from "./rows";

const RUN = { uid: "1", phase: "Queued" } as Row;
const FIGURES = new Map();

test("a row stays the same object until something in it changes, so that it is not drawn again", () => {
  const starts = () => new Map([["1", { starts: "in 5 min", startsAt: "2026-11-29T12:00:00Z" }]]);
  const [first] = listed([RUN], undefined, FIGURES);
  expect(listed([RUN], undefined, new Map())[0]).toBe(first);
  const [started] = listed([RUN], starts(), FIGURES);
  expect(started).toMatchObject({ uid: "1", starts: "in 5 min" });
  expect(listed([RUN], starts(), FIGURES)[0]).toBe(started);
  expect(listed([{ ...RUN }], starts(), FIGURES)[0]).not.toBe(started);
});
