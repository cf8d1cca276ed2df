import { expect, it } from "vitest";
import { isUnderTest, testWords } from "./testing";

it.each([
  ["asked", "", false, "It begins in a moment."],
  ["testing", "", true, "It begins when the runs on the node have ended."],
  ["testing", "", false, "It is under way."],
  ["passed", "", true, "Passed"],
  ["failed", "exit code 1: 7 of 8 GPUs", true, "Failed: exit code 1: 7 of 8 GPUs"],
])("tells of a test that is %s", (state, says, hasRuns, expected) => {
  expect(testWords({ state, says }, hasRuns)).toBe(expected);
});

it("asks for no second test before the first one has ended", () => {
  const test = { at: "", run: "", namespace: "", by: "", says: "" };
  expect(["asked", "testing", "passed"].map((state) => isUnderTest({ ...test, state }))).toEqual([true, true, false]);
  expect(isUnderTest(null)).toBe(false);
});
