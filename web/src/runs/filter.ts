/** Which runs a person wants to see, as it stands in the page's address. */
import type { Phase } from "../api/client";
import { STATES } from "../states/states";
import type { Row } from "./rows";

export type Whose = "mine" | "all";

export interface Filter {
  whose: Whose;
  text: string;
  phases: Phase[];
}

/** Return the filter in an address; what makes no sense is left out. */
export function filterOf(parameters: URLSearchParams): Filter {
  const phases = (parameters.get("phase") ?? "").split(",").filter((word): word is Phase => word in STATES);
  return { whose: parameters.get("whose") === "mine" ? "mine" : "all", text: parameters.get("text") ?? "", phases };
}

/** Return the address's parameters for a filter; defaults are left out. */
export function parametersOf({ whose, text, phases }: Filter): URLSearchParams {
  const parameters = new URLSearchParams();
  if (whose !== "all") parameters.set("whose", whose);
  if (text) parameters.set("text", text);
  if (phases.length) parameters.set("phase", phases.join(","));
  return parameters;
}

/** Whether a run's name, team, owner, state, message or GPU type contains every word of the filter's text. */
export function fits(run: Row, { text, phases }: Filter): boolean {
  if (phases.length && !phases.includes(run.phase)) return false;
  const shown = [run.name, run.namespace, run.owner, run.phase, run.message, run.gpuType].join(" ").toLowerCase();
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
