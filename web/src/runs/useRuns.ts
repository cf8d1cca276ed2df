import { useEffect, useMemo, useState } from "react";
import { brokenAt, followChanges, heardAt, NO_LINK, type Link } from "../api/changes";
import { changedRows, newestFirst, rowsOf, type Row, type Rows } from "./rows";

export interface LiveRuns extends Link {
  /** The runs that the caller may see, newest first; null until the server has sent them. */
  rows: Row[] | null;
}

/** Follow the runs that the parameters of the Web API's list select, such as `owner=%40me`; null: not yet. After a break the server sends what changed meanwhile. */
export function useRuns(parameters: string | null): LiveRuns {
  const [rows, setRows] = useState<Rows | null>(null);
  const [link, setLink] = useState<Link>(NO_LINK);

  useEffect(() => {
    setRows(null);
    if (parameters === null) return undefined;
    return followChanges(`/v1/runs/changes${parameters && `?${parameters}`}`, {
      snapshot: (data) => setRows(rowsOf(JSON.parse(data))),
      changes: (data) => setRows((held) => changedRows(held ?? new Map(), JSON.parse(data))),
      heard: () => setLink(heardAt(Date.now())),
      broken: (error) => setLink((held) => brokenAt(held, Date.now(), error)),
    });
  }, [parameters]);

  const ordered = useMemo(() => (rows ? newestFirst(rows) : null), [rows]);
  return { rows: ordered, ...link };
}
