/** The view of a sweep, as the page's address contains it. */
import { compareTexts } from "./plots/scales";
import type { Order, Trial, Value, ValueColumn } from "./trials/trials";
import { numberOf, whyOf } from "./trials/trials";

export type Part = "all" | "best" | "failed";

export interface View {
  part: Part;
  /** How many are the best. */
  most: number;
  /** Name of the value that counts; empty: the server's choice. */
  by: string;
  /** Empty: as the name of the value suggests. */
  order: Order | "";
  text: string;
  /** Name of a column, after a dash for descending order; empty: the best first. */
  sort: string;
  /** Names on the axes of the scatter plot; empty: the page's choice. */
  x: string;
  y: string;
  /** Index of the member that is shown beside the table; null for none. */
  member: number | null;
}

/** The parameter of the address that names the member. */
export const MEMBER = "member" satisfies keyof View;

const MOST = [10, 20, 50, 100];
const DEFAULT_MOST = 10;

/** Return the view in an address; what makes no sense is left out. */
export function viewOf(parameters: URLSearchParams): View {
  const text = (key: string) => parameters.get(key) ?? "";
  const [part, order] = [text("part"), text("order")];
  return {
    part: part === "best" || part === "failed" ? part : "all",
    most: MOST.find((count) => `${count}` === text("most")) ?? DEFAULT_MOST,
    by: text("by"),
    order: order === "lowest" || order === "highest" ? order : "",
    text: text("text"),
    sort: text("sort"),
    x: text("x"),
    y: text("y"),
    member: /^\d{1,5}$/.test(text("member")) ? Number(text("member")) : null,
  };
}

/** Return the address's parameters for a view; defaults are left out. */
export function parametersOf(view: View): URLSearchParams {
  const parameters = new URLSearchParams();
  for (const [key, value] of Object.entries({ ...view, part: view.part === "all" ? "" : view.part, most: view.most === DEFAULT_MOST ? "" : view.most }))
    if (value !== "" && value !== null) parameters.set(key, `${value}`);
  return parameters;
}

/** Columns of the table beside the values: how a member ended. */
export const OWN_COLUMNS = ["Member", "State", "Time", "Exit code", "Restarts", "Peak memory", "Node", "Why"] as const;
export type OwnColumn = (typeof OWN_COLUMNS)[number];

/** Return what a column of a trial sorts by; undefined comes last. Names in the results come after a colon, so that none is taken for another column. */
export function sortValue(trial: Trial, column: string): Value | undefined {
  if (column.startsWith(":")) return trial.values.get(column.slice(1));
  const own: Record<OwnColumn, Value | null | undefined> = {
    Member: trial.index,
    State: trial.state,
    Time: trial.seconds,
    "Exit code": trial.exitCode,
    Restarts: trial.restarts ?? 0,
    "Peak memory": trial.peakBytes || null,
    Node: trial.node || null,
    Why: whyOf(trial) || null,
  };
  return own[column as OwnColumn] ?? undefined;
}

/** Return trials in the order of a column; those without a value come last, whatever the direction. */
export function sorted(trials: readonly Trial[], sort: string): Trial[] {
  const column = sort.replace(/^-/, "");
  const sign = sort.startsWith("-") ? -1 : 1;
  const keyed = trials.map((trial) => ({ trial, value: sortValue(trial, column) }));
  keyed.sort((a, b) => {
    if (a.value === undefined || b.value === undefined) return Number(a.value === undefined) - Number(b.value === undefined) || a.trial.index - b.trial.index;
    return sign * compareValues(a.value, b.value) || a.trial.index - b.trial.index;
  });
  return keyed.map(({ trial }) => trial);
}

function compareValues(a: Value, b: Value): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return typeof a === typeof b ? compareTexts(`${a}`, `${b}`) : typeof a === "number" ? -1 : 1;
}

/** Return whether a table shows a column before a person chooses: the first values, and how the members ended; eight columns at most. */
export function isUsual(values: readonly string[], part: Part, hasFailures: boolean): (column: string) => boolean {
  if (part === "failed") return (column) => !column.startsWith(":");
  const own = (hasFailures && part === "all") || !values.length ? ["Time", "Why"] : ["Time"];
  const usual = new Set(["Member", "State", ...values.slice(0, 6 - own.length), ...own]);
  return (column) => usual.has(column);
}

/** Return the names of the axes of parallel coordinates: the parameters, then the value that counts. */
export function axisNames(trials: readonly Trial[], columns: readonly ValueColumn[], by: string, most: number): string[] {
  const varies = ({ name }: ValueColumn) => {
    const first = trials.find(({ values }) => values.has(name))?.values.get(name);
    return trials.some(({ values }) => values.has(name) && values.get(name) !== first);
  };
  const others = columns.filter((column) => column.name !== by && varies(column)).map(({ name }) => name);
  const isKnown = columns.some(({ name }) => name === by);
  return [...others.slice(0, most - 1), ...(isKnown ? [by] : [])];
}

/** Return the places of trials between worst (0) and best (1), by their rank, so that a single bad one does not hide the differences of the others. */
export function qualities(best: readonly Trial[], by: string): Map<number, number> {
  const places = new Map<number, number>();
  const last = Math.max(1, best.length - 1);
  let [place, value] = [1, null as number | null];
  best.forEach((trial, index) => {
    const found = numberOf(trial, by);
    if (found !== value) [place, value] = [1 - index / last, found];
    places.set(trial.index, place);
  });
  return places;
}
