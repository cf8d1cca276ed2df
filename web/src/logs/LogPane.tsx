import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useTheme } from "@mui/material/styles";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useMemo, useRef, useState, useSyncExternalStore } from "react";
import { Problem } from "../app/Problem";
import { MONOSPACE } from "../app/theme";
import { useRoomBelow } from "../sidepanel/scrolling";
import { LogFeed, type Hit } from "./feed/feed";
import { folded } from "./lines/folds";
import { LineLink } from "./lines/LineLink";
import { LogLine } from "./lines/LogLine";
import { rankColour } from "./lines/LogText";
import type { Row } from "./feed/rows";
import { keyOf, wordsOf, type Source } from "./feed/sources";
import type { LogSearch } from "./search/useLogSearch";

export const LINE_PX = 18;
const AT_END_PX = 24;
const READ_AHEAD_PX = 900;
/** Room for the line below a log and the edge of the page. */
const BELOW_PX = 48;
const TIMES = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** The line that keeps its place while lines are added and removed: at a distance from the upper edge, or in the middle. */
type Anchor = { key: number; delta: number | "centre" };

export type Place = { since: string } | { line: string } | { hit: Hit };

interface Properties {
  path: string;
  sources: readonly Source[];
  /** Whether the programs may still print. */
  mayGrow: boolean;
  wraps: boolean;
  hasTimes: boolean;
  /** The search whose matches are marked in the lines. */
  found: LogSearch;
  /** The part to show; null: the end of the log, as it grows. */
  place: Place | null;
  /** Show another part, or the end, and note it in the page's address. */
  goTo: (place: Place | null) => void;
  /** Return the address that shows a line. */
  addressOf: (line: Hit) => string;
}

/** Logs in one column: of one rank, or of several by time. It follows their ends until the person scrolls up. */
export function LogPane({ path, sources, mayGrow, wraps, hasTimes, found, place, goTo, addressOf }: Properties) {
  const dark = useTheme().palette.mode === "dark";
  const key = sources.map(keyOf).join();
  // A run that ends meanwhile ends the stream: what is on the page stays.
  const feed = useMemo(() => new LogFeed(path, sources, mayGrow), [path, key]);
  const state = useSyncExternalStore(feed.subscribe, feed.snapshot);
  const scroller = useRef<HTMLDivElement>(null);
  const anchor = useRef<Anchor | null>(null);
  const height = useRef(0);
  const pending = useRef<Hit | "first" | null>(null);
  const [follows, setFollows] = useState(true);
  const [seen, setSeen] = useState(0);
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const [marked, setMarked] = useState(0);
  const [told, setTold] = useState("");
  const needle = useMemo(() => (found.isRegex ? null : { text: found.text, matchesCase: found.matchesCase }), [found.isRegex, found.text, found.matchesCase]);
  // The server alone knows what an expression matches, so its lines are marked as a whole.
  const matching = useMemo(() => new Set(found.isRegex ? found.hits.map(lineOf) : []), [found.isRegex, found.hits]);
  const room = useRoomBelow(scroller, BELOW_PX);
  const items = useMemo(() => folded(state.rows, open), [state.rows, open]);
  const lines = useVirtualizer({
    count: items.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
    getItemKey: (index) => items[index]?.row.key ?? index,
  });

  useEffect(() => {
    feed.toEnd();
    setFollows(true);
    return () => feed.close();
  }, [feed]);

  useEffect(() => {
    if (!place) return;
    setFollows(false);
    // Nothing moves under the pointer that has copied the link to a line.
    if ("hit" in place && !place.hit.cursor && state.rows.some((row) => row.key === marked && isOf(row, place.hit))) return;
    setTold("");
    if ("hit" in place) {
      pending.current = place.hit;
      if (!state.rows.some((row) => isOf(row, place.hit))) feed.toHit(place.hit);
      else setOpen((held) => new Set(held));
    } else {
      pending.current = "first";
      feed.toPlace(place);
    }
  }, [feed, place]);

  // The lines that the person reads keep their place when earlier lines are added.
  useLayoutEffect(() => {
    const hit = pending.current;
    const first = items[0];
    if (hit === "first") {
      if (state.isLoading || !first) return;
      pending.current = null;
      anchor.current = { key: first.row.key, delta: 0 };
      setMarked(first.row.key);
      lines.scrollToOffset(0);
    } else if (hit) {
      const row = state.rows.find((each) => isOf(each, hit));
      if (!row) {
        if (state.isLoading || state.error) return;
        pending.current = null;
        return setTold("The line that was asked for is not in this log any more. ");
      }
      const index = items.findIndex((item) => item.row.key === row.key);
      const fold = index < 0 || items[index]?.fold ? items.find((item) => item.fold?.rows.some(({ key }) => key === row.key))?.fold : undefined;
      if (fold) return setOpen((held) => new Set(held).add(fold.key));
      pending.current = null;
      setMarked(row.key);
      // The browser reports this scroll later. Lines that arrive before that must not scroll back to the old place.
      anchor.current = { key: row.key, delta: "centre" };
      lines.scrollToIndex(index, { align: "center" });
    } else if (follows) {
      if (items.length) lines.scrollToIndex(items.length - 1, { align: "end" });
    } else if (anchor.current) {
      const { key, delta } = anchor.current;
      const index = items.findIndex((item) => item.row.key === key);
      const start = index < 0 ? undefined : lines.getOffsetForIndex(index, "start")?.[0];
      if (start === undefined) return;
      // By the virtualizer alone: it would take a scroll of its own that is still under way to its end.
      if (delta === "centre") lines.scrollToIndex(index, { align: "center" });
      else lines.scrollToOffset(start + delta);
    }
  }, [items]);

  // A log that is followed stays at its end when the room for it changes.
  useEffect(() => {
    const box = scroller.current;
    if (!box || !follows) return;
    const observer = new ResizeObserver(() => {
      height.current = box.clientHeight;
      box.scrollTop = box.scrollHeight;
    });
    observer.observe(box);
    return () => observer.disconnect();
  }, [follows]);

  useEffect(() => {
    if (follows) setSeen(state.received);
  }, [follows, state.received]);

  useEffect(() => {
    const box = scroller.current;
    if (box && !state.isLoading && !state.isAtBeginning && box.scrollHeight <= box.clientHeight) void feed.older();
  }, [feed, items, state.isLoading, state.isAtBeginning]);

  const onScroll = () => {
    const box = scroller.current;
    if (!box) return;
    // A scroll event that comes after a change of size is not the person's.
    if (follows && box.clientHeight !== height.current) return;
    const left = box.scrollHeight - box.scrollTop - box.clientHeight;
    setFollows(left < AT_END_PX && state.isAtEnd && !pending.current);
    const first = lines.getVirtualItems().find(({ end }) => end > box.scrollTop);
    anchor.current = first ? { key: Number(first.key), delta: box.scrollTop - first.start } : null;
    if (box.scrollTop < READ_AHEAD_PX && !state.isAtBeginning) void feed.older();
    if (left < READ_AHEAD_PX && !state.isAtEnd) void feed.newer();
  };
  const copyLink = async (row: Row) => {
    const hit = { ...row, cursor: "" };
    setMarked(row.key);
    goTo({ hit });
    // Over plain HTTP from another machine, a page may not write to the clipboard: the address of the page is the link then.
    const isDone = await navigator.clipboard?.writeText(new URL(addressOf(hit), window.location.href).href).then(() => true, () => false);
    setTold(isDone ? "Link to the line copied. " : "The address of the page leads to this line now. ");
  };
  const toEnd = () => {
    if (place) goTo(null);
    pending.current = null;
    setTold("");
    setFollows(true);
    if (state.isAtEnd) lines.scrollToIndex(items.length - 1, { align: "end" });
    else feed.toEnd();
  };
  const toggle = (fold: number) =>
    setOpen((held) => {
      const next = new Set(held);
      if (!next.delete(fold)) next.add(fold);
      return next;
    });
  const unread = state.received - seen;
  const markedRow = marked ? state.rows.find(({ key }) => key === marked) : undefined;
  const showsRank = sources.length > 1;
  const showsAttempt = sources.some(({ attempt }) => attempt !== sources[0]?.attempt);
  const label = sources.length === 1 && sources[0] ? `Log of ${wordsOf(sources[0])}` : `Logs of ${sources.length} members, by time`;
  return (
    <Box sx={{ minWidth: 0, position: "relative" }}>
      {state.error && (
        <Box sx={{ mb: 2 }}>
          <Problem error={state.error} retry={() => feed.toEnd()} />
        </Box>
      )}
      <Box
        ref={scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label={label}
        sx={{
          height: `max(280px, ${room})`,
          overflow: "auto",
          overflowAnchor: "none",
          border: 1,
          borderColor: "divider",
          borderRadius: 1,
          bgcolor: "background.paper",
          fontFamily: MONOSPACE,
          fontSize: 12.5,
          lineHeight: `${LINE_PX}px`,
          "& .line": { position: "absolute", top: 0, left: 0, minWidth: "100%", width: wraps ? "100%" : "auto", minHeight: LINE_PX, display: "flex", gap: 3, px: 2, boxSizing: "border-box" },
          // Each line has the direction of its own text; all of them begin at the left.
          "& .text": { unicodeBidi: "plaintext", textAlign: "left", whiteSpace: wraps ? "pre-wrap" : "pre", overflowWrap: wraps ? "anywhere" : "normal", minWidth: 0 },
          "& .time": { color: "text.secondary", flex: "none", userSelect: "none" },
          "& .rank": { flex: "none", userSelect: "none" },
          "& .place": { flex: "none", width: 10, mr: -2, userSelect: "none", textDecoration: "none", color: "transparent" },
          "& .line:hover .place, & .hit .place": { color: "text.secondary" },
          "@media (hover: none)": { "& .place": { color: "text.secondary" } },
          "& .note": { color: "text.secondary", fontStyle: "italic" },
          "& .hit": { bgcolor: "action.selected" },
          "& mark, & .match": { bgcolor: dark ? "#6b5300" : "#ffe08a", color: "inherit", borderRadius: "2px" },
          "& button": { font: "inherit", color: "inherit", background: "none", border: 0, p: 0, textAlign: "left", cursor: "pointer", whiteSpace: "inherit" },
          "& a:focus-visible": { outline: "2px solid currentColor", outlineOffset: "-1px", borderRadius: "2px" },
          "& .fold": { color: "error.main" },
        }}
      >
        {!items.length && !state.error && (
          <Typography color="textSecondary" sx={{ p: 2 }}>
            {state.isLoading ? "Reading …" : mayGrow ? "No output yet." : state.missing || "It printed nothing."}
          </Typography>
        )}
        <div style={{ height: lines.getTotalSize(), position: "relative", minWidth: wraps ? undefined : "max-content" }}>
          {lines.getVirtualItems().map((line) => {
            const item = items[line.index];
            if (!item) return null;
            const { row } = item;
            return (
              <div
                key={line.key}
                data-index={line.index}
                ref={wraps ? lines.measureElement : undefined}
                className={row.key === marked ? "line hit" : matching.has(lineOf(row)) ? "line match" : "line"}
                style={{ transform: `translateY(${line.start}px)` }}
              >
                <LineLink row={row.time && !item.fold ? row : null} addressOf={addressOf} copy={copyLink} />
                {hasTimes && (
                  <span className="time" title={row.time && EXACT.format(new Date(row.time))}>
                    {row.time ? TIMES.format(new Date(row.time)) : "            "}
                  </span>
                )}
                {showsRank && (
                  <span className="rank" style={{ color: rankColour(row.rank, dark) }}>
                    [{showsAttempt ? `${row.rank}@${row.attempt}` : row.rank}]
                  </span>
                )}
                <LogLine item={item} needle={needle} toggle={toggle} />
              </div>
            );
          })}
        </div>
      </Box>
      {!follows && items.length > 0 && (
        <Button size="small" variant="contained" onClick={toEnd} sx={{ position: "absolute", bottom: 40, right: 28, zIndex: 1 }}>
          {unread > 0 ? `${unread.toLocaleString()} new line${unread === 1 ? "" : "s"}` : "To the end"}
        </Button>
      )}
      <Typography color="textSecondary" sx={{ fontSize: 12.5, minHeight: 24, pt: 0.5 }}>
        <span role="status">{told}</span>
        {extentWords(state.rows, state.isAtBeginning)}
        {markedRow?.time && (
          <Button size="small" onClick={() => void copyLink(markedRow)} sx={{ ml: 2, py: 0, fontSize: 12.5 }}>
            Copy link to the marked line
          </Button>
        )}
      </Typography>
    </Box>
  );
}

/** Say how much of the log is on the page. */
function extentWords(rows: readonly Row[], isAtBeginning: boolean): string {
  const count = rows.length === 1 ? "1 line" : `${rows.length.toLocaleString()} lines`;
  const time = rows.find((row) => row.time)?.time;
  if (isAtBeginning || !time) return rows.length ? count : "";
  return `${count} from ${TIMES.format(new Date(time))} on; scroll up for earlier ones`;
}

function isOf(row: Row, hit: Hit): boolean {
  return lineOf(row) === lineOf(hit);
}

/** Return what tells a line from all others. */
function lineOf({ rank, attempt, time, nth }: Pick<Hit, "rank" | "attempt" | "time" | "nth">): string {
  return `${rank} ${attempt} ${nth} ${time}`;
}
