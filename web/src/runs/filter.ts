/** The filter and the order of a list of runs, as the page's address contains them. */
import type { Phase } from "../api/client";
import { STATES } from "../states/states";
import { orderOf, orderText, type Order } from "../table/sorting";
import { SORT_KEYS } from "./columns";
import type { Row } from "./rows";

export const WHOSE = { mine: "Mine", team: "My team's", all: "All" } as const;
export type Whose = keyof typeof WHOSE;

export interface Filter {
  whose: Whose;
  text: string;
  phases: Phase[];
  /** null: the newest first. */
  order: Order | null;
}

/** Return the filter in an address. Invalid parts are left out. */
export function filterOf(parameters: URLSearchParams): Filter {
  const whose = parameters.get("whose") ?? "";
  return {
    whose: Object.hasOwn(WHOSE, whose) ? (whose as Whose) : "all",
    text: parameters.get("text") ?? "",
    phases: (parameters.get("phase") ?? "").split(",").filter((word): word is Phase => word in STATES),
    order: orderOf(parameters.get("sort"), SORT_KEYS),
  };
}

/** Return the address's parameters for a filter; defaults are left out. */
export function parametersOf({ whose, text, phases, order }: Filter): URLSearchParams {
  const parameters = new URLSearchParams();
  if (whose !== "all") parameters.set("whose", whose);
  if (text) parameters.set("text", text);
  if (phases.length) parameters.set("phase", phases.join(","));
  if (order) parameters.set("sort", orderText(order));
  return parameters;
}

/** Return the parameters of the Web API's list for these runs; null until the teams are known. */
export function selectionOf(whose: Whose, teams: readonly string[] | undefined): string | null {
  if (whose === "all") return "";
  if (whose === "mine" || teams?.length === 0) return "owner=%40me"; // a person without a team sees only their own runs
  return teams ? teams.map((team) => `team=${encodeURIComponent(team)}`).join("&") : null;
}

/** Whether a run's name, team, owner, state, message or GPU type contains every word of the filter's text. */
export function fits(run: Row, { text, phases }: Pick<Filter, "text" | "phases">): boolean {
  if (phases.length && !phases.includes(run.phase)) return false;
  const shown = [run.name, run.namespace, run.owner, run.phase, run.finding, run.message, run.gpuType].join(" ").toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => shown.includes(word));
}

/** Return the number of runs in each phase. */
export function counted(runs: readonly Row[]): Map<Phase, number> {
  const counts = new Map<Phase, number>();
  for (const run of runs) counts.set(run.phase, (counts.get(run.phase) ?? 0) + 1);
  return counts;
}
