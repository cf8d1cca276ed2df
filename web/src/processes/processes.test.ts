import { expect, it } from "vitest";
import { processorsUsed, processorTime, SIGNALS, type Process } from "./processes";

function process(pid: number, cpuSeconds: number, command = "train"): Process {
  return { pid, ppid: 1, cpuSeconds, memoryBytes: 1, ageSeconds: 10, command };
}

it("tells how many processors a process used between two looks", () => {
  const before = { at: 0, items: [process(1, 10), process(2, 5), process(3, 9, "old")] };
  const now = { at: 2_000, items: [process(1, 13), process(2, 5), process(3, 9.5, "new"), process(4, 1)] };
  expect([...processorsUsed(before, now)]).toEqual([
    [1, 1.5],
    [2, 0],
  ]);
  expect(processorsUsed(null, now).size).toBe(0);
});

it.each([
  [0.4, "0:00"],
  [125, "2:05"],
  [3723, "1:02:03"],
])("writes %d s of processor time as %s", (seconds, words) => expect(processorTime(seconds)).toBe(words));

it("explains each signal once", () => {
  expect(new Set(SIGNALS.map(([name]) => name)).size).toBe(SIGNALS.length);
});
