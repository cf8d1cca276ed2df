import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import { AfterRuns, pageOf } from "../../run/overview/AfterRuns";
import type { QueueRow } from "../useQueue";
import { earliestWords, keyOf } from "../words";
import { RunList } from "./RunList";

/** Runs that wait for other runs. They join the queue after that. */
export function Dependents({ runs, now }: { runs: readonly QueueRow[]; now: number }) {
  if (!runs.length) return null;
  return (
    <Box sx={{ mt: 4 }}>
      <Typography variant="h2">Wait for other runs</Typography>
      <Typography color="textSecondary">They have no place in the queue until the other runs have ended or are healthy.</Typography>
      <RunList label="Runs that wait for other runs" runs={runs} more="filter to see them">
        {(run) => (
          <>
            <Link to={pageOf(run)}>{keyOf(run)}</Link> {run.owner && `of ${run.owner}`} <AfterRuns namespace={run.namespace} after={run.after ?? []} />; {earliestWords(run, now)}
          </>
        )}
      </RunList>
    </Box>
  );
}
