/** Streams of changes of runs. All parts of the page that show the same runs share one stream. */
import { brokenAt, followChanges, heardAt, NO_LINK, type Link } from "../../api/changes";
import { changedRows, rowsOf, type Rows } from "./rows";

export interface Followed extends Link {
  /** null until the server has sent them. */
  rows: Rows | null;
}

export const NOT_YET: Followed = { rows: null, ...NO_LINK };

type Listener = (followed: Followed) => void;

interface Shared {
  followed: Followed;
  listeners: Set<Listener>;
  close: () => void;
}

const open = new Map<string, Shared>();

/** Follow the runs that the parameters of the Web API's list select, until the returned function is called. */
export function followRuns(parameters: string, listener: Listener, follow = followChanges): () => void {
  const shared = open.get(parameters) ?? opened(parameters, follow);
  shared.listeners.add(listener);
  listener(shared.followed);
  return () => {
    shared.listeners.delete(listener);
    if (shared.listeners.size) return;
    shared.close();
    open.delete(parameters);
  };
}

function opened(parameters: string, follow: typeof followChanges): Shared {
  const shared: Shared = { followed: NOT_YET, listeners: new Set(), close: () => undefined };
  const tell = (followed: Followed) => {
    shared.followed = followed;
    shared.listeners.forEach((listener) => listener(followed));
  };
  shared.close = follow(`/v1/runs/changes${parameters && `?${parameters}`}`, {
    snapshot: (data) => tell({ ...shared.followed, rows: rowsOf(JSON.parse(data)) }),
    changes: (data) => tell({ ...shared.followed, rows: changedRows(shared.followed.rows ?? new Map(), JSON.parse(data)) }),
    heard: () => tell({ ...shared.followed, ...heardAt(Date.now()) }),
    broken: (error) => tell({ ...shared.followed, ...brokenAt(shared.followed, Date.now(), error) }),
  });
  open.set(parameters, shared);
  return shared;
}
