/** What a run's status says. The server leaves out fields that have their default. */
import type { Phase, Run } from "../api/client";
import { FINAL } from "../states/states";

export function phaseOf(run: Run): Phase {
  return run.status.phase ?? "Queued";
}

/** Whether a run has ended for good. */
export function isFinal(run: Run): boolean {
  return FINAL.has(phaseOf(run));
}

/** Whether the run was resumed, and its status does not show it yet. */
export function isResuming({ spec, status }: Pick<Run, "spec" | "status">): boolean {
  return (spec.resumes ?? 0) > (status.resumes ?? 0);
}

/** Return the number of members that run, and of all; 0 before the first attempt. */
export function membersOf(run: Run): { running: number; total: number } {
  const { running = 0, total = 0 } = run.status.members ?? {};
  return { running, total };
}
