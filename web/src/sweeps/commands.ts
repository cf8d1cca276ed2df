/** The same as the page, for a terminal and for a spreadsheet. */
import { quote } from "shlex";
import { cell } from "../words/csv";
import { sortValue, OWN_COLUMNS } from "./view";
import type { Order, Trial, ValueColumn } from "./trials/trials";

interface Names {
  namespace: string;
  name: string;
}

/** Return the command that shows the best members. */
export function bestCommand({ namespace, name }: Names, most: number, by: string, order: Order): string {
  const value = by ? ` --by ${quote(by)} --order ${order}` : "";
  return `kaji results -N ${quote(namespace)} ${quote(name)} --best ${most}${value}`;
}

/** Return the command that shows the members in a state; all, if it is empty. */
export function tableCommand({ namespace, name }: Names, state = ""): string {
  return `kaji results -N ${quote(namespace)} ${quote(name)}${state && ` --state ${state.toLowerCase()}`}`;
}

/** Return the shown rows as CSV, with all columns. */
export function csvOf(trials: readonly Trial[], columns: readonly ValueColumn[]): string {
  const sources = [...OWN_COLUMNS, ...columns.map(({ name }) => `:${name}`)];
  const heads = [...OWN_COLUMNS.map((name) => (name === "Time" ? "Seconds" : name === "Peak memory" ? "Peak bytes" : name)), ...columns.map(({ name }) => name)];
  const lines = trials.map((trial) => sources.map((source) => cell(sortValue(trial, source))));
  return [heads.map(cell), ...lines].map((cells) => `${cells.join(",")}\n`).join("");
}
