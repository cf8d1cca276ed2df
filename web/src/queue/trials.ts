/** Alternatives to a run, as bars of the timeline. */
import { EMPTY, type Draft } from "../start/form";
import type { Outcome } from "../start/outlook/WhatIfs";
import type { QueueRow } from "./useQueue";

/** The namespace of alternatives; no namespace can have this name. */
export const TRIAL = "?";

/** The run that a new what-if begins with: one GPU for a day. */
export const NEW_TRIAL: Draft = { form: { ...EMPTY, image: "what-if", gpus: "1", memory: "1Gi", cpus: "1", timeLimit: "24h" }, base: {} };

/** Return the bar of an alternative: from its expected start, for as long as such runs are expected to take. */
export function trialRow({ members, gpuType, found }: Outcome, gpusEach: number, now: number): QueueRow {
  const { starts, start, nodes } = found;
  const startsAt = starts ? new Date(now).toISOString() : (start.expectedAt ?? "");
  const seconds = start.place?.expectedSeconds ?? 0;
  const endsAt = startsAt && seconds ? new Date(Date.parse(startsAt) + 1_000 * seconds).toISOString() : "";
  return {
    namespace: TRIAL,
    name: `what if ${members} × ${gpuType || "this run"}`,
    uid: "",
    owner: "",
    state: "waiting",
    reason: "",
    position: start.place?.position ?? 0,
    priority: 0,
    members,
    gpus: members * gpusEach,
    gpuType,
    nodes: nodes || (start.kept?.nodes ?? ""),
    queuedAt: "",
    startsAt,
    endsAt,
    endsAtEarliest: "",
    expectedSeconds: seconds,
    sure: false,
    behind: start.behind ?? [],
  };
}

/** Whether a row is an alternative, and no run. */
export function isTrial({ namespace }: { namespace: string }): boolean {
  return namespace === TRIAL;
}
