/** The filter and the order of a list of runs, as the page's address contains them. */
import type { Phase } from "../../api/client";
import { pairsOf } from "../../labels/labels";
import { STATES } from "../../states/states";
import { orderOf, orderText, type Order } from "../../table/sorting";
import { SORT_KEYS } from "../columns/columns";
import type { Row } from "../data/rows";
import { rememberedWhose, whoseOf, type Whose } from "./whose";

export interface Filter {
  whose: Whose;
  text: string;
  phases: Phase[];
  /** null: the newest first. */
  order: Order | null;
}

/** Return the filter in an address. Invalid parts are left out. A link without `whose` that has another filter shows everybody's runs; `remembered` is for a bare address. */
export function filterOf(parameters: URLSearchParams, remembered = rememberedWhose): Filter {
  return {
    whose: whoseOf(parameters.get("whose")) ?? (parameters.size ? "all" : remembered()),
    text: parameters.get("text") ?? "",
    phases: (parameters.get("phase") ?? "").split(",").filter((word): word is Phase => word in STATES),
    order: orderOf(parameters.get("sort"), SORT_KEYS),
  };
}

/** Return the address's parameters for a filter. Defaults are left out, but whose runs it shows is said, except for all of one's own: another browser may remember another choice. */
export function parametersOf({ whose, text, phases, order }: Filter): URLSearchParams {
  const parameters = new URLSearchParams();
  if (whose !== "mine" || text || phases.length || order) parameters.set("whose", whose);
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

/** Whether a run's name, team, owner, image, labels (as `key=value`), note, state, message or GPU type contains every word of the filter's text. The first six are where the Web API's search looks. */
export function fits(run: Row, { text, phases }: Pick<Filter, "text" | "phases">): boolean {
  if (phases.length && !phases.includes(run.phase)) return false;
  if (!text.trim()) return true;
  const shown = [run.name, run.namespace, run.owner, run.phase, run.finding, run.message, run.gpuType, run.image, run.note, ...(run.labels ? pairsOf(run.labels) : [])].join(" ").toLowerCase();
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
