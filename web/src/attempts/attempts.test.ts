import { describe, expect, it } from "vitest";
import type { Run } from "../api/client";
import { attemptsOf, segmentsOf, type Recorded } from "./segments";

const at = (minute: number) => `2026-11-23T10:${`${minute}`.padStart(2, "0")}:00Z`;
const NOW = Date.parse(at(40));

const attempt = (number: number, plannedAt: string, startedAt: string, endedAt = "", reason = ""): Recorded => ({ number, nodes: "n-1", plannedAt, startedAt, endedAt, reason, message: "" });
const run = (status: object) => ({ createdAt: at(0), status }) as Run;
const minutes = (made: Run, recorded: Recorded[]) =>
  segmentsOf(made, attemptsOf(made, recorded), NOW).map(({ attempt, phase, from, until, reason }) => [attempt, phase, (from - Date.parse(at(0))) / 60_000, (until - Date.parse(at(0))) / 60_000, reason]);

describe("the life of a run", () => {
  it("is queued, starting, running and restarting", () => {
    const made = run({ phase: "Running", attempts: 2, attempt: { number: 2, nodes: "n-2", plannedAt: at(20), startedAt: at(22) } });
    expect(minutes(made, [attempt(1, at(2), at(3), at(10), "NodeLost")])).toEqual([
      [1, "Queued", 0, 2, ""],
      [1, "Starting", 2, 3, ""],
      [1, "Running", 3, 10, "NodeLost"],
      [2, "Restarting", 10, 20, ""],
      [2, "Starting", 20, 22, ""],
      [2, "Running", 22, 40, ""],
    ]);
  });

  it("ends with the run", () => {
    const made = run({ phase: "Failed", reason: "ProgramFailed", finishedAt: at(9), attempts: 1, attempt: { number: 1, nodes: "n-1", plannedAt: at(1), startedAt: at(2) } });
    expect(minutes(made, []).at(-1)).toEqual([1, "Running", 2, 9, "ProgramFailed"]);
  });

  it("shows a run that waits, and an attempt that never started", () => {
    expect(minutes(run({ phase: "Queued", message: "needs 8 h100" }), [])).toEqual([[1, "Queued", 0, 40, "needs 8 h100"]]);
    const made = run({ phase: "Restarting", attempts: 1, setback: { attempt: 1, at: at(5), reason: "StartDeadline" } });
    expect(minutes(made, [attempt(1, at(1), "")])).toEqual([
      [1, "Queued", 0, 1, ""],
      [1, "Starting", 1, 5, "StartDeadline"],
      [2, "Restarting", 5, 40, ""],
    ]);
  });
});
