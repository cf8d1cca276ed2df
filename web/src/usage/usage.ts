/** Usage as words, numbers and CSV: what a person chose, and what the server answered. */
import { lineOf } from "../words/commands";
import { cell } from "../words/csv";
import { exact } from "../words/times/times";
import type { Schemas } from "../api/client";
import { optionsOf, spanOf, writeSpan, type Span } from "../choices/span";

export type Usage = Schemas["UsageAnswer"];
export type UsageRow = Schemas["UsageRow"];
export type By = "team" | "owner" | "type" | "run" | "node" | "day" | "hour";
export type TimeBy = "day" | "hour";
export type Measure = "gpu" | "core" | "cost";
export const MEASURES: Readonly<Record<Measure, { word: string; inSentence: string }>> = {
  gpu: { word: "GPU-hours", inSentence: "GPU-hours" },
  core: { word: "Core-hours", inSentence: "core-hours" },
  cost: { word: "Cost", inSentence: "cost" },
};

/** The groupings of the sums: the label of each, and its words for one and for several in a sentence. */
export const BY: ReadonlyMap<By, { word: string; one: string; many: string }> = new Map([
  ["team", { word: "Team", one: "team", many: "teams" }],
  ["owner", { word: "Person", one: "person", many: "people" }],
  ["type", { word: "GPU type", one: "GPU type", many: "GPU types" }],
  ["run", { word: "Run", one: "run", many: "runs" }],
  ["node", { word: "Node", one: "node", many: "nodes" }],
  ["day", { word: "Day", one: "day", many: "days" }],
  ["hour", { word: "Hour", one: "hour", many: "hours" }],
]);

/** The question: whose usage, of which time, and by which grouping. */
export interface Question {
  by: By;
  span: Span;
  team: string;
  owner: string;
  /** The measure that the bars show. */
  measure: Measure;
}

/** Return the question in an address. Invalid parts are left out. */
export function questionOf(parameters: URLSearchParams): Question {
  const by = parameters.get("by") as By | null;
  const measure = parameters.get("measure");
  return {
    by: by && BY.has(by) ? by : "team",
    span: spanOf(parameters),
    team: parameters.get("team") ?? "",
    owner: parameters.get("owner") ?? "",
    measure: measure === "core" || measure === "cost" ? measure : "gpu",
  };
}

/** Return the address's parameters for a question; defaults are left out. */
export function parametersOf({ by, span, team, owner, measure }: Question): URLSearchParams {
  const parameters = new URLSearchParams();
  if (by !== "team") parameters.set("by", by);
  writeSpan(parameters, span);
  if (team) parameters.set("team", team);
  if (owner) parameters.set("owner", owner);
  if (measure !== "gpu") parameters.set("measure", measure);
  return parameters;
}

/** Return the command that answers the same question; `now` is in milliseconds. */
export function commandOf({ by, span, team, owner }: Question, now: number): string {
  return lineOf("usage", { "--by": by, "--owner": owner, "-N": team }, optionsOf(span, now));
}

/** The name of a row for people: for a run its team and name, without the UID. */
export function nameOf(by: string, key: string): string {
  if (by === "run") return key.split("/").slice(0, 2).join("/");
  if (by === "hour" && !key.startsWith("(")) return exact(key);
  return key || (by === "type" ? "without GPUs" : "(none)");
}

/** The address of a row's object: the page of a run or node, the people of a team, the runs of a person; empty if there is none. */
export function addressOf(question: Question, key: string): string {
  const { by } = question;
  if (by === "team" && key) return `/usage?${parametersOf({ ...question, by: "owner", team: key })}`;
  if (by === "owner" && key) return `/usage?${parametersOf({ ...question, by: "run", owner: key })}`;
  if (isByTime(by) || key.startsWith("(")) return ""; // or a sum of several, such as "(expired)"
  if (by === "node") return key ? `/cluster/${encodeURIComponent(key)}` : "";
  const [namespace, , uid] = by === "run" ? key.split("/") : [];
  return namespace && uid ? `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(uid)}` : "";
}

export function amountOf(row: UsageRow, measure: Measure): number {
  return measure === "gpu" ? row.gpuSeconds : measure === "core" ? row.coreSeconds : row.cost;
}

/** Return the measure of bars, shares and the order of rows: the chosen one, unless all of its values are 0. */
export function measureOf(usage: Usage, wanted: Measure): Measure {
  const known = measuresOf(usage);
  return known.includes(wanted) ? wanted : (known[0] ?? "core");
}

/** Whether usage is grouped by the time at which it happened. */
export function isByTime(by: string): by is TimeBy {
  return by === "day" || by === "hour";
}

/** Return the rows of a table: the largest amount first, or the newest day or hour. */
export function tableRows(usage: Usage, measure: Measure): UsageRow[] {
  return isByTime(usage.by) ? [...usage.items].reverse() : largestFirst(usage, measure);
}

/** Return the rows, the largest amount first. */
export function largestFirst({ items }: Usage, measure: Measure): UsageRow[] {
  return [...items].sort((a, b) => amountOf(b, measure) - amountOf(a, measure));
}

/** Return the measures that are worth showing: cost if there are prices, GPUs if there were any. */
export function measuresOf({ total, currency }: Usage): Measure[] {
  return [...(total.gpuSeconds ? ["gpu" as const] : []), "core" as const, ...(currency || total.cost ? ["cost" as const] : [])];
}

const LEAST_HOURS = 0.01;
const NUMBER = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const SMALL = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const ALIGNED = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const MONEY = new Intl.NumberFormat(undefined, { minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** Return hours: "12,345", or with two digits behind the point if there are few. */
export function hours(seconds: number): string {
  const amount = seconds / 3600;
  if (amount > 0 && amount < LEAST_HOURS) return `under ${SMALL.format(LEAST_HOURS)}`;
  return (amount >= 100 ? NUMBER : SMALL).format(amount);
}

/** Return hours for a column of numbers: with two digits behind the point wherever any are shown. */
export function hoursInColumn(seconds: number): string {
  const amount = seconds / 3600;
  return amount >= LEAST_HOURS && amount < 100 ? ALIGNED.format(amount) : hours(seconds);
}

export function money(amount: number, currency: string): string {
  return [MONEY.format(amount), currency].filter(Boolean).join(" ");
}

/** Return an amount of a measure with its unit. */
export function amountInWords(row: UsageRow, measure: Measure, currency: string): string {
  if (measure === "cost") return money(row.cost, currency);
  return `${hours(amountOf(row, measure))} ${measure === "gpu" ? "GPU-hours" : "core-hours"}`;
}

/** Return the share of a part, in words; empty without a whole. */
export function share(part: number, whole: number): string {
  if (!whole) return "";
  const percent = (100 * part) / whole;
  if (percent > 0 && percent < 1) return "under 1 %";
  return percent > 99 && percent < 100 ? "over 99 %" : `${Math.round(percent)} %`;
}

/** Return in a sentence who used how much of it all. */
export function largestInWords(usage: Usage, measure: Measure): string {
  const [first, ...others] = largestFirst(usage, measure);
  const whole = amountOf(usage.total, measure);
  const words = BY.get(usage.by as By);
  if (!first || !whole || !words) return "";
  const name = nameOf(usage.by, first.key);
  if (usage.count === 1 && !others.length) return `all of it: the ${words.one} ${name}.`;
  return `${usage.count.toLocaleString()} ${words.many}; the most by ${name}: ${share(amountOf(first, measure), whole)} of the ${MEASURES[measure].inSentence}.`;
}

/** Return usage as CSV, with the columns of `kaji usage -o csv`. */
export function csvOf({ by, items }: Usage): string {
  const lines = items.map((row) =>
    [row.key, row.gpuSeconds, row.coreSeconds, row.memoryGibSeconds, row.memberSeconds, row.cost].map(cell).join(","),
  );
  return [`${by},gpuSeconds,coreSeconds,memoryGibSeconds,memberSeconds,cost`, ...lines, ""].join("\n");
}
