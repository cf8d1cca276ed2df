import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { Link } from "react-router";
import type { QueueRow } from "../useQueue";
import { keyOf, sizeWords } from "../words";
import { RunList } from "./RunList";
import { NodeNames } from "../../cluster/NodeNames";

interface Properties {
  /** In the order of the queue. */
  runs: readonly QueueRow[];
  why: string;
  addressOf: (key: string) => string;
}

/** Waiting runs that the timeline cannot show, because their starts are not known. */
export function UnknownStarts({ runs, why, addressOf }: Properties) {
  if (!runs.length) return null;
  return (
    <Box sx={{ mt: 4 }}>
      <Typography variant="h2">Waiting, start not known</Typography>
      <Typography color="textSecondary">{why} Choose a run to see what has to happen.</Typography>
      <RunList label="Waiting, start not known" runs={runs} more="the table lists them">
        {(run) => (
          <>
            {run.position}. <Link to={addressOf(keyOf(run))}>{keyOf(run)}</Link> {[sizeWords(run), run.owner && `of ${run.owner}`].filter(Boolean).join(", ")}
            {run.nodes && <>; reserved: <NodeNames list={run.nodes} /></>}
          </>
        )}
      </RunList>
    </Box>
  );
}
