import { useEffect, useMemo, useState } from "react";
import type { Link } from "../../api/changes";
import { newestFirst, type Row } from "./rows";
import { followRuns, NOT_YET, type Followed } from "./streams";

export interface LiveRuns extends Link {
  /** The runs that the caller may see, newest first; null until the server has sent them. */
  rows: Row[] | null;
}

/** Follow the runs that the parameters of the Web API's list select, such as `owner=%40me`; null: not yet. After a break the server sends what changed meanwhile. */
export function useRuns(parameters: string | null): LiveRuns {
  const [{ rows, ...link }, setFollowed] = useState<Followed>(NOT_YET);

  useEffect(() => {
    if (parameters !== null) return followRuns(parameters, setFollowed);
    setFollowed(NOT_YET);
    return undefined;
  }, [parameters]);

  const ordered = useMemo(() => (rows ? newestFirst(rows) : null), [rows]);
  return { rows: ordered, ...link };
}
