import { expect, it } from "vitest";
import { fitting } from "./rules";

const GROUPS = [
  { title: "Limits", rules: [{ field: "ceilings.run.timeLimit", text: "Time limit: 14d." }, { field: "ceilings.run.gpu", text: "GPUs: 128." }] },
  { title: "Idle GPUs", rules: [{ field: "idleGpus.park", text: "It is parked." }] },
];

it.each([
  ["", [2, 1]],
  ["time LIMIT", [1]],
  ["gpu", [1, 1]],
  ["idle parked", [1]],
  ["nothing", []],
])("finds rules by the words %j", (text, counts) => expect(fitting(GROUPS, text).map(({ rules }) => rules.length)).toEqual(counts));
