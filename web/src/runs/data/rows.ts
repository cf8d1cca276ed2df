/** The rows of the list of runs, kept current by the server's stream of changes. */
import type { Schemas } from "../../api/client";

export type Row = Schemas["RunTableRow"];
type Snapshot = Schemas["RunSnapshot"];
type Changes = Schemas["RunChanges"];

/** Rows by the UID of their run. */
export type Rows = ReadonlyMap<string, Row>;

/** Return the rows of a snapshot, which replaces all that came before. */
export function rowsOf(snapshot: Snapshot): Rows {
  return new Map(snapshot.items.map((row) => [row.uid, row]));
}

/** Return the rows after a batch of changes. */
export function changedRows(rows: Rows, changes: Changes): Rows {
  const next = new Map(rows);
  for (const key of changes.removed) next.delete(key.uid);
  for (const row of [...changes.added, ...changes.changed]) next.set(row.uid, row);
  return next;
}

/** Return the rows in the order of the list: the newest first, then by team and name. */
export function newestFirst(rows: Rows): Row[] {
  return [...rows.values()].sort(
    (a, b) =>
      compare(b.createdAt, a.createdAt) || compare(a.namespace, b.namespace) || compare(a.name, b.name),
  );
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
