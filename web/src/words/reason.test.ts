import { expect, test } from "vitest";
import { reasonWords } from "./reason";

test("a reason is told in words", () => {
  expect(reasonWords("ProgramFailed")).toBe("program failed");
  expect(reasonWords("WaitingForGPU")).toBe("waiting for GPU");
  expect(reasonWords("")).toBe("");
});
