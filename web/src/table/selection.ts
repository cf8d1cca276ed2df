/** The rows of a table that a person selected, by their keys. */

export type Keys = ReadonlySet<string>;

/** Return the keys after a click on one; `between` are all keys from the one clicked before to this one, if Shift was held. */
export function toggled(keys: Keys, key: string, between: readonly string[] = [key]): Keys {
  const taken = keys.has(key);
  const next = new Set(keys);
  for (const each of between) {
    if (taken) next.delete(each);
    else next.add(each);
  }
  return next;
}

/** Return the keys from one to another in their order; the second alone if the first is not among them. */
export function range(all: readonly string[], from: string | null, to: string): string[] {
  const [a, b] = [from === null ? -1 : all.indexOf(from), all.indexOf(to)];
  return a < 0 || b < 0 ? [to] : all.slice(Math.min(a, b), Math.max(a, b) + 1);
}

/** Return how many of the shown keys are selected. */
export function extent(keys: Keys, shown: readonly string[]): "none" | "some" | "all" {
  const count = shown.reduce((sum, key) => sum + Number(keys.has(key)), 0);
  return !count ? "none" : count === shown.length ? "all" : "some";
}
