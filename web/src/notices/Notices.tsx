import Alert from "@mui/material/Alert";
import Snackbar from "@mui/material/Snackbar";
import { useEffect, useRef, useState } from "react";
import { Link, useNavigate, type NavigateFunction } from "react-router";
import { serverNow } from "../api/clock";
import type { Row } from "../runs/data/rows";
import { followRuns } from "../runs/data/streams";
import { useNow } from "../words/times/useNow";
import { isWatching, noticesOf, restartsBetween, streamsFor, type Notice } from "./notices";
import { useWanted } from "./useWanted";

/** Tells the person about ends and restarts of runs, on all pages. Of several tabs, one does. */
export function Notices() {
  const { user, wanted } = useWanted();
  const isChosen = useOnlyTab(user !== "" && isWatching(wanted));
  return isChosen ? <Watch /> : null;
}

/** Whether this is the tab that tells: the browser gives a lock to one tab, and to the next one when that is closed. */
function useOnlyTab(wants: boolean): boolean {
  const [isChosen, setChosen] = useState(false);
  useEffect(() => {
    if (!wants || !("locks" in navigator)) return undefined; // without locks, a page came without HTTPS: then there are no notices, either
    const ending = new AbortController();
    let release = () => ending.abort();
    const hold = () =>
      new Promise<void>((resolve) => {
        release = resolve;
        setChosen(true);
      });
    void navigator.locks.request("kajitori-notices", { signal: ending.signal }, hold).catch(() => undefined);
    return () => {
      release();
      setChosen(false);
    };
  }, [wants]);
  return isChosen;
}

/** Follows the runs, and shows the notices; those that the browser does not show appear in the page. */
function Watch() {
  const { user, wanted, change } = useWanted();
  const [missed, setMissed] = useState<Notice | null>(null);
  const navigate = useNavigate();
  const rows = useRows(streamsFor(wanted).join(" "));
  const now = useNow(30);
  const seen = useRef(rows);
  useEffect(() => {
    if (!rows || !user) return;
    const before = seen.current;
    seen.current = rows;
    if (before) for (const notice of restartsBetween(wanted, user, before, rows)) if (!isShown(notice, navigate)) setMissed(notice);
    if (noticesOf(wanted, user, rows, serverNow()).wanted === wanted) return;
    change((newest) => {
      const found = noticesOf(newest, user, rows, serverNow());
      for (const notice of found.notices) if (!isShown(notice, navigate)) setMissed(notice);
      return found.wanted;
    });
  }, [rows, wanted, user, change, navigate, now]);
  return (
    <Snackbar open={missed !== null} onClose={(_, reason) => reason !== "clickaway" && setMissed(null)}>
      <Alert severity="info" role="status" onClose={() => setMissed(null)}>
        {missed && <Link to={missed.to}>{missed.title}</Link>}
        <div>{missed?.body}</div>
      </Alert>
    </Snackbar>
  );
}

/** Show a notice of the browser; a click on it opens its page. Returns whether the browser took it: those of telephones do not. */
function isShown({ tag, title, body, to }: Notice, navigate: NavigateFunction): boolean {
  if (Notification.permission !== "granted") return false;
  try {
    const notice = new Notification(title, { tag, body, dir: "auto" });
    notice.onclick = () => {
      window.focus();
      void navigate(to);
      notice.close();
    };
    return true;
  } catch {
    return false;
  }
}

/** Return the runs of streams with these parameters, together; null until all have sent theirs. */
function useRows(streams: string): ReadonlyMap<string, Row> | null {
  const [rows, setRows] = useState<ReadonlyMap<string, Row> | null>(null);
  useEffect(() => {
    setRows(null);
    const all = streams.split(" ").filter(Boolean);
    const held = new Map<string, ReadonlyMap<string, Row>>();
    const closing = all.map((parameters) =>
      followRuns(parameters, (followed) => {
        if (!followed.rows || held.get(parameters) === followed.rows) return;
        held.set(parameters, followed.rows);
        if (held.size === all.length) setRows(all.length === 1 ? followed.rows : new Map([...held.values()].flatMap((each) => [...each])));
      }),
    );
    return () => closing.forEach((close) => close());
  }, [streams]);
  return rows;
}
