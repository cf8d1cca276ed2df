import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { ReactNode } from "react";
import type { QueueRow } from "../useQueue";
import { keyOf } from "../words";

const MOST = 100;

interface Properties {
  label: string;
  runs: readonly QueueRow[];
  /** Largest number of runs that are shown. */
  most?: number;
  /** How a person sees the runs that are not shown. */
  more: string;
  /** The line about a run. */
  children: (run: QueueRow) => ReactNode;
}

/** Runs of the queue as lines of words. */
export function RunList({ label, runs, most = MOST, more, children }: Properties) {
  return (
    <>
      <Box component="ul" aria-label={label} sx={{ listStyle: "none", p: 0, m: 0 }}>
        {runs.slice(0, most).map((run) => (
          <Box component="li" key={keyOf(run)} sx={{ py: 1, borderBottom: 1, borderColor: "divider", overflowWrap: "anywhere" }}>
            {children(run)}
          </Box>
        ))}
      </Box>
      {runs.length > most && <Typography color="textSecondary">{`${(runs.length - most).toLocaleString("en")} more; ${more}.`}</Typography>}
    </>
  );
}
