/** The address of the page that compares runs, which lists and searches link to without the page's code. */
import type { Item } from "../sidepanel/address";

/** A plot of more lines could not be read. */
export const MOST_RUNS = 4;

/** Return the address of the page that compares these runs. */
export function compareAddress(runs: readonly Item[]): string {
  return `/compare?${new URLSearchParams(runs.map(({ namespace, name }) => ["run", `${namespace}/${name}`]))}`;
}
