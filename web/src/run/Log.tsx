import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useRef, useState } from "react";
import type { Run } from "../api/client";
import { Problem } from "../app/Problem";
import { MONOSPACE } from "../app/theme";
import { membersOf } from "./status";
import { useLog } from "./useLog";

const LINE_PX = 18;
const AT_END_PX = 24;

/** The log of one member. It follows the end until the person scrolls up, and says how much is new. */
export function Log({ run, rank, chooseRank }: { run: Run; rank: number; chooseRank: (rank: number) => void }) {
  const log = useLog(run, rank);
  const scroller = useRef<HTMLDivElement>(null);
  const [follows, setFollows] = useState(true);
  const [seen, setSeen] = useState(0);
  const end = log.first + log.lines.length;
  const rows = useVirtualizer({
    count: log.lines.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => LINE_PX,
    overscan: 20,
    getItemKey: (index) => log.first + index,
  });

  useEffect(() => {
    if (!follows) return;
    setSeen(end);
    if (log.lines.length) rows.scrollToIndex(log.lines.length - 1, { align: "end" });
  }, [end, follows, log.lines.length, rows]);

  const onScroll = () => {
    const box = scroller.current;
    if (box) setFollows(box.scrollHeight - box.scrollTop - box.clientHeight < AT_END_PX);
  };
  return (
    <>
      <Box sx={{ display: "flex", alignItems: "center", gap: 3, mb: 2 }}>
        {(membersOf(run).total > 1 || rank > 0) && (
          <TextField
            size="small"
            type="number"
            label="Rank"
            value={rank}
            onChange={(event) => chooseRank(Math.max(0, Number(event.target.value) || 0))}
            sx={{ width: 96 }}
          />
        )}
        <Typography color="text.secondary">{end === 1 ? "1 line" : `${end.toLocaleString()} lines`}</Typography>
        {!follows && end > seen && (
          <Button size="small" onClick={() => setFollows(true)}>
            {(end - seen).toLocaleString()} new lines
          </Button>
        )}
      </Box>
      {log.error && <Problem error={log.error} />}
      <Box
        ref={scroller}
        onScroll={onScroll}
        tabIndex={0}
        role="log"
        aria-label={`Log of rank ${rank}`}
        sx={{
          height: "60vh",
          overflow: "auto",
          border: 1,
          borderColor: "divider",
          borderRadius: 1,
          bgcolor: "background.paper",
          fontFamily: MONOSPACE,
          fontSize: 12.5,
          lineHeight: `${LINE_PX}px`,
          p: 2,
        }}
      >
        {!log.lines.length && !log.error && (
          <Typography color="text.secondary">No output yet.</Typography>
        )}
        <div style={{ height: rows.getTotalSize(), position: "relative", minWidth: "max-content" }}>
          {rows.getVirtualItems().map((row) => (
            <div
              key={row.key}
              style={{ position: "absolute", top: 0, left: 0, height: LINE_PX, whiteSpace: "pre", transform: `translateY(${row.start}px)` }}
            >
              {log.lines[row.index]}
            </div>
          ))}
        </div>
      </Box>
    </>
  );
}
