/** The filter for ended runs, as the page's address contains it. */
import type { Phase, Schemas } from "../api/client";
import { FINAL } from "../states/states";
import { optionsOf, spanOf, writeSpan, type Span } from "../choices/span";
import { lineOf } from "../words/commands";
import { csvTable } from "../words/csv";
import { secondsBetween } from "../words/times/times";

export type RecordedRun = Schemas["RecordedRun"];

export interface Filter {
  /** Beginning of the name. */
  name: string;
  /** Words in name, team, owner, image, labels or note. */
  text: string;
  owner: string;
  team: string;
  /** Empty for all in which a run has ended. */
  phases: Phase[];
  /** When the run was created. */
  span: Span;
}

/** Return the filter in an address. Invalid parts are left out. */
export function filterOf(parameters: URLSearchParams): Filter {
  const phases = (parameters.get("phase") ?? "").split(",");
  return {
    name: parameters.get("name") ?? "",
    text: parameters.get("text") ?? "",
    owner: parameters.get("owner") ?? "",
    team: parameters.get("team") ?? "",
    phases: [...FINAL].filter((phase) => phases.includes(phase)),
    span: spanOf(parameters, "all"),
  };
}

/** Return the address's parameters for a filter; defaults are left out. */
export function parametersOf({ name, text, owner, team, phases, span }: Filter): URLSearchParams {
  const parameters = new URLSearchParams();
  const texts = { name, text, owner, team, phase: phases.join(",") };
  for (const [key, value] of Object.entries(texts)) if (value) parameters.set(key, value);
  writeSpan(parameters, span, "all");
  return parameters;
}

/** Return the command that lists the same runs; `now` is in milliseconds. */
export function commandOf({ name, text, owner, team, phases, span }: Filter, now: number): string {
  const statuses = (phases.length ? phases : [...FINAL]).flatMap((phase) => ["--status", phase.toLowerCase()]);
  const whose = owner === "@me" ? [] : owner ? ["--owner", owner] : ["--all-users"];
  return lineOf("history", { "--name": name, "--search": text, "-N": team }, [...whose, ...statuses, ...optionsOf(span, now)]);
}

/** Return ended runs as CSV. */
export function csvOf(runs: readonly RecordedRun[]): string {
  return csvTable(runs, {
    namespace: (run) => run.namespace,
    name: (run) => run.name,
    owner: (run) => run.owner,
    type: (run) => run.type,
    phase: (run) => run.phase,
    reason: (run) => run.reason,
    members: (run) => run.members,
    gpus: (run) => run.gpus,
    attempts: (run) => run.attempts,
    createdAt: (run) => run.createdAt,
    startedAt: (run) => run.startedAt,
    endedAt: (run) => run.endedAt,
    removedAt: (run) => run.removedAt,
    lastedSeconds: lasted,
    uid: (run) => run.uid,
  });
}

/** The address of a run's page: by its UID once the run is removed, because its name may belong to a newer run. */
export function addressOf({ namespace, name, uid, removedAt }: RecordedRun): string {
  return `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(removedAt ? uid : name)}`;
}

/** Return for how long a run ran, in seconds; null if it never started. */
export function lasted({ startedAt, endedAt }: RecordedRun): number | null {
  return secondsBetween(startedAt, endedAt);
}
