/** Rows that keep their place while a person points at them. */

/** Return the rows of `now` in the order that they had in `before`, without those that came since. */
export function inPlace<T>(before: readonly T[], now: readonly T[], keyOf: (item: T) => string): T[] {
  const current = new Map(now.map((item) => [keyOf(item), item]));
  return before.flatMap((item) => current.get(keyOf(item)) ?? []);
}
