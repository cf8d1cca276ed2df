import { useEffect, useMemo, useState } from "react";
import { whoAmI } from "../api/signIn";
import type { Whose } from "./filter";
import { changedRows, newestFirst, rowsOf, type Row, type Rows } from "./rows";

const AGAIN_MS = 3_000;

export interface LiveRuns {
  /** The runs that the caller may see, newest first; null until the server has sent them. */
  rows: Row[] | null;
  /** When the list was current for the last time, in milliseconds; 0 if it never was. */
  currentAt: number;
  /** Why the list is not current now. */
  error: Error | null;
}

/** Follow the list of runs. After a break the server sends what changed meanwhile. */
export function useRuns(whose: Whose): LiveRuns {
  const [rows, setRows] = useState<Rows | null>(null);
  const [link, setLink] = useState<{ currentAt: number; error: Error | null }>({ currentAt: 0, error: null });

  useEffect(() => {
    let source: EventSource;
    let timer = 0;
    const heard = () => setLink({ currentAt: Date.now(), error: null });
    const open = () => {
      source = new EventSource(`/v1/runs/changes${whose === "mine" ? "?owner=%40me" : ""}`);
      source.addEventListener("open", heard);
      source.addEventListener("snapshot", (event) => {
        setRows(rowsOf(JSON.parse(event.data)));
        heard();
      });
      source.addEventListener("changes", (event) => {
        setRows((held) => changedRows(held ?? new Map(), JSON.parse(event.data)));
        heard();
      });
      source.addEventListener("error", () => {
        setLink(({ currentAt, error }) => {
          const wasCurrent = currentAt > 0 && !error; // until this moment
          return { currentAt: wasCurrent ? Date.now() : currentAt, error: new Error("the server does not answer") };
        });
        if (source.readyState !== EventSource.CLOSED) return; // the browser opens it again by itself
        void refusal().then((error) => error && setLink((held) => ({ ...held, error })));
        timer = window.setTimeout(open, AGAIN_MS);
      });
    };
    setRows(null);
    open();
    return () => {
      window.clearTimeout(timer);
      source.close();
    };
  }, [whose]);

  const ordered = useMemo(() => (rows ? newestFirst(rows) : null), [rows]);
  return { rows: ordered, ...link };
}

/** Return why the server refuses this browser, which a stream of events does not tell; null if it does not. */
async function refusal(): Promise<Error | null> {
  try {
    return (await whoAmI()) ? null : new Error("your session has ended");
  } catch (error) {
    return error instanceof Error ? error : null;
  }
}
