import { expect, it } from "vitest";
import type { Run } from "../api/client";
import { isFinal, isResuming, membersOf, phaseOf } from "./status";

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
