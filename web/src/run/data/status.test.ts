import { expect, it } from "vitest";
import type { Run } from "../../api/client";
import { findingOf, gpuWords, isFinal, isResuming, membersOf, phaseOf } from "./status";

it("fills in what the server leaves out", () => {
  const run = { status: {} } as Run;
  expect([phaseOf(run), isFinal(run), membersOf(run)]).toEqual(["Queued", false, { running: 0, total: 0 }]);
});

it("reads what the server says", () => {
  const run = { status: { phase: "Failed", members: { total: 4, failed: 4 } } } as Run;
  expect([phaseOf(run), isFinal(run), membersOf(run)]).toEqual(["Failed", true, { running: 0, total: 4 }]);
});

it("knows a resumed run before its status shows it", () => {
  const run = { spec: { resumes: 1 }, status: { phase: "Stopped" } } as Run;
  expect([isResuming(run), isResuming({ ...run, status: { resumes: 1 } })]).toEqual([true, false]);
});

it("suspects running runs only", () => {
  const stuck = { since: "2026-11-21T10:00:00Z" };
  const run = (status: object) => ({ status }) as Run;
  expect(findingOf(run({ phase: "Running", stuck }))).toBe("stuck");
  expect(findingOf(run({ phase: "Running", idle: { gpus: 8 } }))).toBe("idle");
  expect(findingOf(run({ phase: "Running", idle: { gpus: 8 }, health: { status: "unhealthy", unhealthy: 1 } }))).toBe("unhealthy");
  expect(findingOf(run({ phase: "Running", health: { status: "healthy", healthy: 1 } }))).toBe("");
  expect(findingOf(run({ phase: "Restarting", stuck }))).toBe("");
});

it.each([
  [{ resources: { gpu: 8, gpuType: "h100" } }, 16, "128 h100 (8 each)"],
  [{ resources: { gpu: 8 } }, 7500, "60,000 (8 each)"],
  [{ resources: { gpu: 2 } }, 1, "2"],
  [{ resources: { gpu: 1, gpuType: "a100" }, array: "0-9" }, 10, "1 a100 each"],
  [{}, 4, ""],
])("the GPUs of %j with %i members: %s", (spec, total, words) =>
  expect(gpuWords({ spec, status: { members: { total } } } as unknown as Run)).toBe(words),
);
