import { expect, it } from "vitest";
import { eventChoiceOf, eventParametersOf, fits, runOf } from "./events";

const EVENT = { time: "", type: "Warning", reason: "Failed", object: "Pod/bert-2-13", message: "image not found", count: 1 };

it.each([
  ["Run/bert-2", "bert-2"],
  ["Pod/bert-2-13", "bert"],
  ["Pod/bert-large-1-0", "bert-large"],
  ["PersistentVolumeClaim/bert-checkpoint", ""],
])("finds the run of %s", (object, run) => expect(runOf({ object })).toBe(run));

it.each([
  [{ text: "", warnings: true }, true],
  [{ text: "BERT image", warnings: false }, true],
  [{ text: "gpt", warnings: false }, false],
])("fits %j: %j", (choice, expected) => {
  expect(fits(EVENT, { team: "", ...choice })).toBe(expected);
  expect(fits({ ...EVENT, type: "Normal" }, { team: "", ...choice, warnings: true })).toBe(false);
});

it("keeps the choice in the address", () => {
  const choice = { team: "vision", text: "image", warnings: true };
  expect(eventChoiceOf(eventParametersOf(choice))).toEqual(choice);
  expect(`${eventParametersOf({ team: "", text: "", warnings: false })}`).toBe("");
});
