/** Which runs a person compares, and how, as the page's address has it. */
import type { Schemas } from "../api/client";
import type { Item } from "../sidepanel/address";
import { curveValues, curveViewOf, type CurveView } from "../figures/curves";
import { lineOf } from "../words/commands";
import { MOST_RUNS } from "./address";

export type Comparison = Schemas["Comparison"];
export type ComparedRun = Schemas["ComparedRun"];

export interface CompareView extends CurveView {
  /** The runs as `namespace/name`, removed ones as `namespace/UID`. */
  runs: readonly string[];
  /** Whether values that are the same are listed, too. */
  all: boolean;
}

/** Return the view in an address: at most four different runs. */
export function compareViewOf(parameters: URLSearchParams): CompareView {
  const named = parameters.getAll("run").filter((run) => /^[^/\s]+\/[^/\s]+$/.test(run));
  return { ...curveViewOf(parameters), runs: [...new Set(named)].slice(0, MOST_RUNS), all: parameters.get("all") === "true" };
}

/** Return the address's parameters for a view; defaults are left out. */
export function compareParametersOf({ runs, all, ...curves }: CompareView): URLSearchParams {
  const parameters = new URLSearchParams(runs.map((run) => ["run", run]));
  if (all) parameters.set("all", "true");
  for (const [key, value] of Object.entries(curveValues(curves))) if (value) parameters.set(key, value);
  return parameters;
}

/** Return the name by which the server finds a run: of a removed one its UID, because a newer run may have its name. */
export function itemOf({ namespace, name, uid, isRemoved }: ComparedRun): Item {
  return { namespace, name: isRemoved ? uid : name };
}

/** Return a name for each run that distinguishes it from the others: its own, or with its team, or with the beginning of its UID. */
export function namesOf(runs: readonly ComparedRun[]): string[] {
  const forms = [
    ({ name }: ComparedRun) => name,
    ({ namespace, name }: ComparedRun) => `${namespace}/${name}`,
    ({ namespace, name, uid }: ComparedRun) => `${namespace}/${name} (${uid.slice(0, 8)})`,
  ];
  const named = forms.map((form) => runs.map(form)).find((names) => new Set(names).size === runs.length);
  return named ?? runs.map(({ uid }) => uid);
}

/** Return the commands that show the same: the comparison, and the figures of each run. */
export function commandsOf(runs: readonly ComparedRun[], all: boolean): string[] {
  const items = runs.map(itemOf);
  return [
    lineOf("compare", {}, [...(all ? ["--all"] : []), ...items.map(({ namespace, name }) => `${namespace}/${name}`)]),
    ...items.map(({ namespace, name }, index) => lineOf("metrics", { "-N": namespace, "--since": runs[index]?.createdAt ?? "" }, [name, "train."])),
  ];
}
