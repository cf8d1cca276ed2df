import { expect, it } from "vitest";
import type { Fault } from "../api/client";
import { faultIn, standBeside } from "./faults";

it("shows faults beside their fields, and the others apart", () => {
  const faults = [{ field: "url", message: "is no URL", hint: "write SCHEME://…" } as Fault];
  expect([faultIn(faults, "url"), faultIn(faults, "name"), faultIn([], "url")]).toEqual(["is no URL; write SCHEME://…", "", ""]);
  expect([standBeside(["url"], faults), standBeside(["name"], faults), standBeside(["url"], [])]).toEqual([true, false, false]);
});

it("finds a fault of a field of a run's spec", () => {
  expect(faultIn([{ field: "spec.timeLimit", message: "is too long" } as Fault], "timeLimit")).toBe("is too long");
});
