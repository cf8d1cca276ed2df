import { expect, it } from "vitest";
import { tightestFirst, wordsFor, type Quota } from "./quotas";

it.each([
  ["requests.nvidia.com/gpu", "GPUs (nvidia.com/gpu)"],
  ["limits.memory", "memory (limits)"],
  ["requests.cpu", "cores"],
  ["cpu", "cores"],
  ["count/pods", "Pods"],
  ["services", "services"],
])("says %s as %s", (resource, words) => expect(wordsFor(resource)).toBe(words));

it("begins with what is nearest to its end", () => {
  const quota = (resource: string, part: number) => ({ resource, part }) as Quota;
  expect(tightestFirst([quota("a", 0.1), quota("b", 1), quota("c", 0.5)]).map(({ resource }) => resource)).toEqual(["b", "c", "a"]);
});
