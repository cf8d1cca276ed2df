import { expect, it } from "vitest";
import { hours, share, shownOf, type TimeOf } from "./categories";

const part = (category: string, seconds: number): TimeOf => ({
  category,
  meaning: "",
  seconds,
  gpuSeconds: 8 * seconds,
  memberSeconds: seconds,
});

it("shows what took time", () => {
  const found = shownOf([part("productive", 30), part("lost", 0), part("queued", 10)]);
  expect(found.map(({ category }) => category)).toEqual(["productive", "queued"]);
});

it("has shares and hours", () => {
  const all = [part("productive", 1800), part("queued", 600)];
  expect(share(part("queued", 600), all)).toBe("25.0 %");
  expect(share(part("queued", 0), [])).toBe("");
  expect([hours(part("queued", 900), true), hours(part("queued", 900), false)]).toEqual(["2.00", "0.25"]);
});
