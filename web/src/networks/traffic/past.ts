/** Traffic over time, as a plot and a table take it. */
import type { Schemas } from "../../api/client";
import type { Columns } from "../../figures/series";

export type TrafficHistory = Schemas["TrafficHistory"];
export type SumRow = Schemas["TrafficSumRow"];
type ClassBytes = Schemas["ClassBytes"];
export type PastGroup = "namespace" | "user" | "run";
export type Direction = "sent" | "received";

export const PAST_GROUPS: Readonly<Record<PastGroup, string>> = { namespace: "Teams", user: "People", run: "Runs" };
export const PAST_SPANS: ReadonlyMap<string, readonly [word: string, days: number]> = new Map([
  ["1d", ["Last day", 1]],
  ["7d", ["Last 7 days", 7]],
  ["30d", ["Last 30 days", 30]],
  ["365d", ["Last year", 365]],
]);
/** Most lines of a plot. */
const MOST_LINES = 4;

/** Return the classes with most traffic in the points, at most as many as a plot has lines. */
export function classesIn({ points }: Pick<TrafficHistory, "points">): string[] {
  const sums = new Map<string, number>();
  for (const { classes } of points)
    for (const { name, sent, received } of classes ?? []) sums.set(name, (sums.get(name) ?? 0) + sent + received);
  return [...sums].sort(([a, x], [b, y]) => y - x || a.localeCompare(b)).slice(0, MOST_LINES).map(([name]) => name);
}

/** Return times and bytes per second of each class; null where no server recorded anything. */
export function speedColumns({ points, intervalSeconds }: Pick<TrafficHistory, "points" | "intervalSeconds">, names: readonly string[], direction: Direction): Columns {
  const speed = (classes: readonly ClassBytes[] | null | undefined, name: string) =>
    classes ? (classes.find((found) => found.name === name)?.[direction] ?? 0) / intervalSeconds : null;
  return [points.map(({ at }) => Date.parse(at) / 1000), ...names.map((name) => points.map(({ classes }) => speed(classes, name)))];
}

/** Return the bytes of a row with one class of addresses. */
export function bytesWith({ classes }: SumRow, name: string, direction: Direction): number {
  return classes.find((found) => found.name === name)?.[direction] ?? 0;
}

/** Return the name by which the Web API finds a row. */
export function nameOf({ namespace, name }: SumRow): string {
  return namespace ? `${namespace}/${name}` : name;
}

/** Return what the figures leave out, as sentences. */
export function gapsIn({ points, intervalSeconds, hidden = 0 }: Pick<TrafficHistory, "points" | "intervalSeconds" | "hidden">): string[] {
  const unit = intervalSeconds < 86_400 ? "hour" : "day";
  const known = points.map(({ classes }) => !!classes);
  const first = known.indexOf(true);
  const gaps = first < 0 ? 0 : known.slice(first).filter((isKnown) => !isKnown).length;
  const found: string[] = [];
  if (gaps) found.push(`No server recorded anything in ${gaps} ${unit}${gaps === 1 ? "" : "s"}; traffic of that time is in the ${unit} after it.`);
  if (hidden) found.push(`${hidden} ${hidden === 1 ? "run" : "runs"} of teams whose runs you may not list ${hidden === 1 ? "is" : "are"} not shown; the sums by team include ${hidden === 1 ? "it" : "them"}.`);
  return found;
}
