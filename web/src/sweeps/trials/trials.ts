/** Members of a sweep with their parameters and results as columns. */
import type { Schemas } from "../../api/client";
import { secondsBetween } from "../../words/times/times";

export type Result = Schemas["MemberResult"];
export type Value = number | string;
export type Order = "lowest" | "highest";

export interface Trial extends Result {
  /** The values that its program wrote, by name. */
  values: ReadonlyMap<string, Value>;
  /** How long it took; null until it has ended. */
  seconds: number | null;
}

/** One name in the results. */
export interface ValueColumn {
  name: string;
  /** Whether all of its values are numbers. */
  isNumber: boolean;
}

/** The name of a result that is no mapping. */
const PLAIN = "result";
/** Numbers that JSON does not have, and that Python writes nevertheless. */
const NOT_JSON = /(?<=[:[,]\s*)(-?Infinity|NaN)(?=\s*[,}\]])/g;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;

/** Return a row of the server's table with its values. */
export function trialOf(row: Result): Trial {
  return { ...row, values: valuesOf(row.result), seconds: secondsBetween(row.startedAt, row.endedAt) };
}

/** Return the values in a result; what is no number, text or truth value is written as JSON. */
export function valuesOf(result: unknown): Map<string, Value> {
  const found = new Map<string, Value>();
  const content = typeof result === "string" && result.startsWith("{") ? parsed(result) : result;
  const isMapping = typeof content === "object" && content !== null && !Array.isArray(content);
  for (const [name, value] of Object.entries(isMapping ? content : { [PLAIN]: content })) {
    if (value === null || value === undefined || value === "") continue;
    found.set(name, valueOf(value));
  }
  return found;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text.replace(NOT_JSON, '"$1"'));
  } catch {
    return text;
  }
}

function valueOf(value: unknown): Value {
  if (typeof value === "number") return value;
  if (typeof value === "string") return NUMBER.test(value) ? Number(value) : value;
  return typeof value === "boolean" ? `${value}` : JSON.stringify(value);
}

/** Return the names in the results, in the order in which programs wrote them. */
export function columnsOf(trials: readonly Trial[]): ValueColumn[] {
  const numbers = new Map<string, boolean>();
  for (const { values } of trials)
    for (const [name, value] of values) numbers.set(name, (numbers.get(name) ?? true) && (typeof value === "number" || isUnbounded(value)));
  return [...numbers].map(([name, isNumber]) => ({ name, isNumber }));
}

/** Whether a text stands for a number that cannot be placed. */
function isUnbounded(value: Value): boolean {
  return value === "NaN" || value === "Infinity" || value === "-Infinity";
}

/** Return a trial's value as a number; null if it has none. */
export function numberOf(trial: Trial, name: string): number | null {
  const value = trial.values.get(name);
  return typeof value === "number" ? value : null;
}

/** Return the trials that succeeded with a value of this name, the best first: the order of `kaji results --best`. */
export function bestFirst(trials: readonly Trial[], by: string, order: Order): Trial[] {
  const sign = order === "lowest" ? 1 : -1;
  return trials
    .filter((trial) => trial.state === "Succeeded" && numberOf(trial, by) !== null)
    .sort((a, b) => sign * ((numberOf(a, by) ?? 0) - (numberOf(b, by) ?? 0)) || a.index - b.index);
}

/** Members that failed in the same way. */
export interface FailureGroup {
  why: string;
  trials: Trial[];
}

/** Return the failed members by their reason, the largest group first. Numbers in messages do not make a difference. */
export function failuresOf(trials: readonly Trial[]): FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const trial of trials) {
    if (trial.state !== "Failed") continue;
    const why = whyOf(trial) || "no reason is known";
    const key = why.replace(/\d+/g, "0");
    const group = groups.get(key) ?? { why, trials: [] };
    group.trials.push(trial);
    groups.set(key, group);
  }
  return [...groups.values()].sort((a, b) => b.trials.length - a.trials.length);
}

/** Return why a member is as it is, in the server's words. */
export function whyOf({ reason, message }: Trial): string {
  return [reason, message].filter(Boolean).join(": ");
}

/** Return a number as people write it: at most five digits, and powers of ten for very large and small ones. */
export function numberWord(value: number): string {
  if (value === 0 || !Number.isFinite(value)) return `${value}`;
  const size = Math.abs(value);
  if (Number.isInteger(value) && size < 1e7) return `${value}`;
  if (size < 1e-3 || size >= 1e6) return value.toExponential(2).replace(/\.?0+e/, "e").replace("e+", "e");
  return `${Number(value.toPrecision(5))}`;
}

/** Return a value as people read it. */
export function valueWord(value: Value | undefined): string {
  return typeof value === "number" ? numberWord(value) : (value ?? "");
}
