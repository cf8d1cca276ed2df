import { expect, it } from "vitest";
import { eventChoiceOf, eventParametersOf, queryOf, runOf } from "./events";

it.each([
  ["Run/bert-2", "bert-2"],
  ["Pod/bert-2-13", "bert"],
  ["Pod/bert-large-1-0", "bert-large"],
  ["PersistentVolumeClaim/bert-checkpoint", ""],
])("finds the run of %s", (object, run) => expect(runOf({ object })).toBe(run));

it("asks the server for all teams or for one, and lets it filter", () => {
  expect(queryOf({ team: "", text: " ", warnings: false })).toEqual({ everywhere: true });
  expect(queryOf({ team: "vision", text: " bert image ", warnings: true })).toEqual({ namespace: "vision", search: "bert image", warnings: true });
});

it("keeps the choice in the address", () => {
  const choice = { team: "vision", text: "image", warnings: true };
  expect(eventChoiceOf(eventParametersOf(choice))).toEqual(choice);
  expect(`${eventParametersOf({ team: "", text: "", warnings: false })}`).toBe("");
});
