/** Which entries of the audit trail a person looks for, and how the page says what they see of it. */
import type { Schemas } from "../api/client";
import { optionsOf, spanOf, writeSpan, type Span } from "../choices/span";
import { lineOf } from "../words/commands";

export type Entry = Schemas["AuditRow"];
export type Outcome = "" | "done" | "refused" | "failed";

export const OUTCOMES: readonly Outcome[] = ["done", "refused", "failed"];

export interface AuditFilter {
  actor: string;
  /** Kind and name of the changed object: "run bert". */
  object: string;
  outcome: Outcome;
  team: string;
  span: Span;
}

/** Return the filter in an address. Invalid parts are left out. */
export function auditFilterOf(parameters: URLSearchParams): AuditFilter {
  return {
    actor: parameters.get("actor") ?? "",
    object: parameters.get("object") ?? "",
    outcome: OUTCOMES.find((outcome) => outcome === parameters.get("outcome")) ?? "",
    team: parameters.get("team") ?? "",
    span: spanOf(parameters, "all"),
  };
}

/** Return the address's parameters for a filter; defaults are left out. */
export function auditParametersOf({ span, ...texts }: AuditFilter): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries(texts)) if (value) parameters.set(key, value);
  writeSpan(parameters, span, "all");
  return parameters;
}

/** Return the command that lists the same entries; `now` is in milliseconds. */
export function auditCommandOf({ actor, object, outcome, team, span }: AuditFilter, now: number): string {
  const options = { "--actor": actor, "--object": object, "--outcome": outcome, "-N": team };
  return lineOf("audit log", options, optionsOf(span, now));
}

/** Return a sentence that says which part of the trail the page shows. `namespaces` are those with runs that the caller may read; null stands for all. */
export function scopeInWords(namespaces: readonly string[] | null, team: string, hasTeams: boolean): string {
  if (team) return `Changes in ${team}.`;
  if (namespaces === null) return "All changes, those of the cluster included. Entries cannot be edited or deleted.";
  if (!namespaces.length && hasTeams) return "Nothing was changed in your teams yet: none of them had a run.";
  if (!namespaces.length)
    return "You may not read the audit trail: it is open to those who may list a team's runs. Your operators can give you a role in a team.";
  const teams = namespaces.length > 4 ? `${namespaces.length} teams` : namespaces.join(", ");
  return `You see changes in: ${teams}. Changes to nodes and to the cluster are for people who may list all runs.`;
}

/** Return why something was refused, failed or, if a person gave a reason, done: the rule, and the words. */
export function whyOf({ rule, message }: Entry): string {
  return [rule, message].filter(Boolean).join(": ");
}
