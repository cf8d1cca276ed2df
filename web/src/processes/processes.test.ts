import { expect, it } from "vitest";
import { killProgramsCommand, processorsUsed, processorTime, programsTold, SIGNALS, signalsFor, type Process } from "./processes";

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

it("sends all members only signals that do not end the run", () => {
  const names = (ranks: string) => signalsFor(ranks).map(([signal]) => signal);
  expect(names("")).toEqual(["USR1", "USR2", "HUP", "STOP", "CONT", "WINCH"]);
  expect(names("3")).toContain("KILL");
  expect(killProgramsCommand("bert", "vision", "", "USR1")).toBe("kaji kill -N vision -s USR1 bert");
  expect(killProgramsCommand("bert", "vision", "0-3", "KILL")).toBe("kaji kill -N vision -s KILL --rank 0-3 bert");
});

it("tells which programs got a signal", () => {
  const got = [0, 1, 2].map((rank) => ({ rank, pid: 7 }));
  expect(programsTold({ signal: "USR1", items: got })).toEqual({ done: "The programs of 3 members got USR1.", failed: [] });
  expect(programsTold({ signal: "USR1", items: got.slice(1, 2) }).done).toBe("The program of rank 1 got USR1.");
  const others = [{ rank: 3, ignored: true }, { rank: 4, error: "rank 4 of bert has no process now" }, { rank: 6, error: "gone" }, { rank: 7, error: "gone" }];
  expect(programsTold({ signal: "USR1", items: [...got, ...others] })).toEqual({
    done: "The programs of 3 members got USR1: ranks 0-2.",
    failed: [
      "Rank 3 ignores USR1: the program is the first process of its container and has no handler for it.",
      "Rank 4 did not get USR1: rank 4 of bert has no process now",
      "2 ranks: 6-7 did not get USR1: gone",
    ],
  });
  expect(programsTold({ signal: "USR1", items: [{ rank: 0, ignored: true }] }).done).toBe("");
});
