import { useEffect, useMemo, useState } from "react";
import { brokenAt, followChanges, heardAt, NO_LINK, type Link } from "../api/changes";
import type { Whose } from "./filter";
import { changedRows, newestFirst, rowsOf, type Row, type Rows } from "./rows";

export interface LiveRuns extends Link {
  /** The runs that the caller may see, newest first; null until the server has sent them. */
  rows: Row[] | null;
}

/** Follow the list of runs. After a break the server sends what changed meanwhile. */
export function useRuns(whose: Whose): LiveRuns {
  const [rows, setRows] = useState<Rows | null>(null);
  const [link, setLink] = useState<Link>(NO_LINK);

  useEffect(() => {
    setRows(null);
    return followChanges(`/v1/runs/changes${whose === "mine" ? "?owner=%40me" : ""}`, {
      snapshot: (data) => setRows(rowsOf(JSON.parse(data))),
      changes: (data) => setRows((held) => changedRows(held ?? new Map(), JSON.parse(data))),
      heard: () => setLink(heardAt(Date.now())),
      broken: (error) => setLink((held) => brokenAt(held, Date.now(), error)),
    });
  }, [whose]);

  const ordered = useMemo(() => (rows ? newestFirst(rows) : null), [rows]);
  return { rows: ordered, ...link };
}
