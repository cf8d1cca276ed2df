/** A run's status. The server leaves out fields that have their default. */
import type { Phase, Run } from "../../api/client";
import { FINAL, type Finding } from "../../states/states";
import { gpusWords } from "../../words/amounts";

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

/** Return what is suspected of a running run; empty if nothing is. */
export function findingOf(run: Run): Finding | "" {
  if (phaseOf(run) !== "Running") return "";
  const { stuck, health, idle } = run.status;
  return stuck ? "stuck" : health?.unhealthy ? "unhealthy" : idle ? "idle" : "";
}

/** Return the number of GPUs of all members, of a sweep those of one. */
export function gpusOf(run: Run): number {
  const { gpu = 0 } = run.spec.resources ?? {};
  return run.spec.array ? gpu : gpu * (membersOf(run).total || 1);
}

/** Return the GPUs of a run in words: "128 h100 (8 each)"; empty if it has none. */
export function gpuWords(run: Run): string {
  const { gpu = 0, gpuType } = run.spec.resources ?? {};
  const all = gpusOf(run);
  if (!all) return "";
  const each = run.spec.array ? " each" : all > gpu ? ` (${gpu} each)` : "";
  return `${gpusWords(all, gpuType ?? "")}${each}`;
}
