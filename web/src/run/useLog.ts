import { useEffect, useState } from "react";
import { linesOf, refusalFrom, type Run } from "../api/client";
import { appended, NO_LINES, type LogLines } from "./logLines";
import { isFinal } from "./status";

const TAIL_LINES = 5_000;
const AGAIN_MS = 2_000;

interface FollowedLog extends LogLines {
  error: Error | null;
}

/** Follow the log of one member, from its last 5,000 lines on. A broken connection is tried again. */
export function useLog(run: Run, rank: number): FollowedLog {
  const [log, setLog] = useState<FollowedLog>({ ...NO_LINES, error: null });
  const { namespace, name, uid } = run;
  const follow = !isFinal(run);

  useEffect(() => {
    const ending = new AbortController();
    const read = async () => {
      setLog({ ...NO_LINES, error: null });
      const query = new URLSearchParams({ rank: `${rank}`, tail: `${TAIL_LINES}`, follow: `${follow}` });
      const address = `/v1/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/logs?${query}`;
      const answer = await fetch(address, { signal: ending.signal, headers: { Accept: "text/plain" } });
      if (!answer.ok) throw await refusalFrom(answer);
      if (!answer.body) return;
      for await (const lines of linesOf(answer.body)) setLog((held) => ({ ...appended(held, lines), error: null }));
    };
    const again = () => {
      read().catch((error: Error) => {
        if (ending.signal.aborted) return;
        setLog((held) => ({ ...held, error }));
        if (follow) timer = window.setTimeout(again, AGAIN_MS);
      });
    };
    let timer = window.setTimeout(again, 0);
    return () => {
      window.clearTimeout(timer);
      ending.abort();
    };
  }, [namespace, name, uid, rank, follow]);
  return log;
}
