import { expect, it } from "vitest";
import { bodyOf, changeableOf, commandOf } from "./changes";

const before = changeableOf({ timeLimit: "3d", restarts: 2, array: "0-99%4" });

it("sends only what differs, and null for the policy's default", () => {
  expect(bodyOf(before, before)).toEqual({});
  expect(bodyOf(before, { timeLimit: " 7d ", priority: "low", restarts: "", array: "0-99%64" })).toEqual({
    timeLimit: "7d",
    priority: "low",
    restarts: null,
    array: "0-99%64",
  });
  expect(bodyOf(before, { ...before, restarts: "20" })).toEqual({ restarts: 20 });
  expect(bodyOf(before, { ...before, restarts: "many" })).toEqual({ restarts: "many" });
});

it("is a command", () => {
  expect(commandOf("vision", "bert", before, { ...before, timeLimit: "", restarts: "20" })).toBe("kaji update --time-limit default --restarts 20 -N vision bert");
});
