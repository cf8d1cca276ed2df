import { useEffect, useMemo, useState } from "react";
import { brokenAt, followChanges, heardAt, NO_LINK, type Link } from "../api/changes";
import type { Schemas } from "../api/client";
import { changed, keyed, type Rows } from "../api/rows";
import { keyOf } from "./words";

export type QueueRow = Schemas["QueueTableRow"];

export interface LiveQueue extends Link {
  /** All runs that wait for nodes or run; null until the server has sent them. */
  runs: QueueRow[] | null;
  /** Runs that wait for other runs to end, by name. They have no place in the queue. */
  dependents: QueueRow[];
}

/** Follow the waiting and running runs with their expected times. */
export function useQueue(): LiveQueue {
  const [rows, setRows] = useState<Rows<QueueRow> | null>(null);
  const [link, setLink] = useState<Link>(NO_LINK);
  useEffect(
    () =>
      followChanges("/v1/queue/changes?state=waiting&state=running&state=dependent", {
        snapshot: (data) => setRows(keyed((JSON.parse(data) as Schemas["QueueSnapshot"]).items, keyOf)),
        changes: (data) => setRows((held) => changed(held ?? new Map(), JSON.parse(data) as Schemas["QueueChanges"], keyOf)),
        heard: () => setLink(heardAt(Date.now())),
        broken: (error) => setLink((held) => brokenAt(held, Date.now(), error)),
      }),
    [],
  );
  const runs = useMemo(() => rows && [...rows.values()].filter(({ state }) => state !== "dependent"), [rows]);
  const dependents = useMemo(
    () => [...(rows?.values() ?? [])].filter(({ state }) => state === "dependent").sort((a, b) => keyOf(a).localeCompare(keyOf(b))),
    [rows],
  );
  return { runs, dependents, ...link };
}
