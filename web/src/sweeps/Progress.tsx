import Box from "@mui/material/Box";
import { useTheme } from "@mui/material/styles";
import { STATES } from "../states/states";

export interface Counts {
  total: number;
  succeeded: number;
  failed: number;
  running: number;
  pending: number;
}

/** How far a sweep is: its members by state, as a bar. */
export function ProgressBar({ counts, height = 8 }: { counts: Counts; height?: number }) {
  const dark = useTheme().palette.mode === "dark";
  const parts = [
    [counts.succeeded, STATES.Succeeded],
    [counts.failed, STATES.Failed],
    [counts.running, STATES.Running],
    [counts.pending, STATES.Starting],
  ] as const;
  return (
    <Box role="img" aria-label={progressWords(counts)} sx={{ display: "flex", height, borderRadius: 1, overflow: "hidden", bgcolor: "divider" }}>
      {parts.map(([count, { word, light, dark: darker }]) =>
        count ? <span key={word} style={{ width: `${(100 * count) / Math.max(1, counts.total)}%`, minWidth: 2, background: dark ? darker : light }} /> : null,
      )}
    </Box>
  );
}

/** Say how many members are in which state. */
export function progressWords({ total, succeeded, failed, running, pending }: Counts): string {
  const waiting = Math.max(0, total - succeeded - failed - running - pending);
  const parts = [
    [succeeded, "succeeded"],
    [failed, "failed"],
    [running, running === 1 ? "runs" : "run"],
    [pending, pending === 1 ? "starts" : "start"],
    [waiting, waiting === 1 ? "waits" : "wait"],
  ] as const;
  const told = parts.filter(([count]) => count).map(([count, word]) => `${count.toLocaleString("en")} ${word}`);
  return `${told.join(", ") || "none began"} of ${total.toLocaleString("en")}`;
}
