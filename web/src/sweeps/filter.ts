/** The filter of a sweep: words, and conditions such as `lr<0.01` or `optimizer=lion|adamw`. */
import type { Trial, Value } from "./trials/trials";
import { whyOf } from "./trials/trials";

export interface Condition {
  /** Empty: a word that the trial contains somewhere. */
  name: string;
  sign: "<" | "<=" | ">" | ">=" | "=";
  value: string;
}

const TERM = /(?:"([^"]*)"|([^\s<>="]+))(<=|>=|<|>|=)(?:"([^"]*)"|(\S+))|"([^"]*)"|(\S+)/g;

/** Return the conditions in a text. */
export function conditionsOf(text: string): Condition[] {
  return [...text.matchAll(TERM)].map(([, quoted, name, sign, quotedValue, value, quotedWord, word]) =>
    sign
      ? { name: quoted ?? name ?? "", sign: sign as Condition["sign"], value: quotedValue ?? value ?? "" }
      : { name: "", sign: "=", value: (quotedWord ?? word ?? "").toLowerCase() },
  );
}

/** Return the text of conditions. */
export function textOf(conditions: readonly Condition[]): string {
  const quoted = (text: string) => (/[\s<>="]/.test(text) || !text ? `"${text}"` : text);
  return conditions.map(({ name, sign, value }) => (name ? `${quoted(name)}${sign}${quoted(value)}` : quoted(value))).join(" ");
}

/** Whether a trial fits all conditions. */
export function fits(trial: Trial, conditions: readonly Condition[]): boolean {
  return conditions.every((condition) => (condition.name ? holds(valueIn(trial, condition.name), condition) : contains(trial, condition.value)));
}

function valueIn(trial: Trial, name: string): Value | undefined {
  const own: Record<string, Value | null | undefined> = { member: trial.index, index: trial.index, state: trial.state, seconds: trial.seconds, node: trial.node };
  return trial.values.get(name) ?? own[name.toLowerCase()] ?? undefined;
}

function holds(value: Value | undefined, { sign, value: text }: Condition): boolean {
  if (value === undefined) return false;
  if (sign === "=") return text.split("|").some((each) => `${value}`.toLowerCase() === each.toLowerCase() || (typeof value === "number" && value === Number(each)));
  const bound = Number(text);
  if (typeof value !== "number" || Number.isNaN(bound)) return false;
  if (sign === "<") return value < bound;
  if (sign === "<=") return value <= bound;
  return sign === ">" ? value > bound : value >= bound;
}

function contains(trial: Trial, word: string): boolean {
  const shown = [trial.index, trial.state, trial.node, whyOf(trial), ...trial.values.values()].join(" ").toLowerCase();
  return shown.includes(word);
}

/** Return the text with the conditions on one name replaced. */
export function withConditions(text: string, name: string, conditions: readonly Condition[]): string {
  return textOf([...conditionsOf(text).filter((each) => each.name !== name), ...conditions]);
}
