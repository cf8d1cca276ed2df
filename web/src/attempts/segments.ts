/** The life of a run as stretches of time: what each attempt waited for, how long it started and ran, and how it ended. */
import type { Phase, Run, Schemas } from "../api/client";

export type Recorded = Schemas["RecordedAttempt"];

export interface Segment {
  /** The attempt; after the last one, that which is to come. */
  attempt: number;
  phase: Phase;
  from: number;
  until: number;
  /** The cause of its end, if it failed. */
  reason: string;
}

/** Return the attempts of a run, the oldest first: those that history keeps, and the newest as the run's status has it. */
export function attemptsOf({ status }: Run, recorded: readonly Recorded[]): Recorded[] {
  const byNumber = new Map(recorded.map((attempt) => [attempt.number, attempt]));
  const { attempt, setback } = status;
  if (setback?.attempt && setback.attempt !== attempt?.number) {
    const known = byNumber.get(setback.attempt) ?? { number: setback.attempt, nodes: "", plannedAt: "", startedAt: "", endedAt: "" };
    const end = { endedAt: setback.at ?? "", reason: setback.reason, message: setback.message ?? "" };
    byNumber.set(setback.attempt, { reason: "", message: "", ...known, ...(known.endedAt ? {} : end) });
  }
  if (attempt) {
    const { number, nodes, plannedAt = "", startedAt = "" } = attempt;
    const endedAt = status.finishedAt ?? "";
    const reason = endedAt ? status.reason || (status.phase ?? "") : "";
    byNumber.set(number, { number, nodes, plannedAt, startedAt, endedAt, reason, message: endedAt ? (status.message ?? "") : "" });
  }
  return [...byNumber.values()].sort((a, b) => a.number - b.number);
}

/** Return the stretches of a run's life until now, in their order. Times are in milliseconds. */
export function segmentsOf(run: Run, attempts: readonly Recorded[], now: number): Segment[] {
  const found: Segment[] = [];
  const end = at(run.status.finishedAt) ?? now;
  let from = at(run.createdAt) ?? now;
  const add = (attempt: number, phase: Phase, until: number | null, reason = "") => {
    if (until === null || until <= from) return;
    found.push({ attempt, phase, from, until, reason });
    from = until;
  };
  attempts.forEach((attempt, place) => {
    const next = attempts[place + 1];
    const planned = at(attempt.plannedAt);
    const started = at(attempt.startedAt);
    // Of an attempt without an end, the next one's beginning is the latest that it can have ended.
    const ended = at(attempt.endedAt) ?? (next ? at(next.plannedAt) : end);
    add(attempt.number, place ? "Restarting" : "Queued", planned ?? started);
    add(attempt.number, "Starting", started ?? (planned === null ? null : ended), started ? "" : wordsOf(attempt));
    add(attempt.number, "Running", started === null ? null : ended, wordsOf(attempt));
  });
  const last = attempts.at(-1);
  if (!run.status.finishedAt || !last) add((last?.number ?? 0) + 1, last ? "Restarting" : "Queued", end, run.status.message ?? "");
  return found;
}

/** Return the cause of an attempt's end. */
export function wordsOf({ reason, message }: Recorded): string {
  return [reason, message].filter(Boolean).join(": ");
}

function at(time: string | undefined): number | null {
  const found = time ? Date.parse(time) : NaN;
  return Number.isNaN(found) ? null : found;
}
