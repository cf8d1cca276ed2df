/** Rows of a table by their keys, kept current by the server's stream of changes. */

export type Rows<R> = ReadonlyMap<string, R>;

interface Changes<R, K> {
  added: R[];
  changed: R[];
  removed: K[];
}

/** Return the rows of a snapshot, which replaces all that came before. */
export function keyed<R>(items: readonly R[], keyOf: (row: R) => string): Rows<R> {
  return new Map(items.map((row) => [keyOf(row), row]));
}

/** Return the rows after a batch of changes. A row that changed keeps its place; a new one comes last. */
export function changed<R extends K, K>(rows: Rows<R>, changes: Changes<R, K>, keyOf: (row: K) => string): Rows<R> {
  const next = new Map(rows);
  for (const key of changes.removed) next.delete(keyOf(key));
  for (const row of [...changes.added, ...changes.changed]) next.set(keyOf(row), row);
  return next;
}
