import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import { Link } from "react-router";
import { StateMark } from "../states/StateMark";
import { Age } from "../words/Age";
import { exact } from "../words/times";
import type { QueueRow } from "./useQueue";
import { ahead, keyOf } from "./words";

const MOST = 500;

/** The same as the timeline, as a table: waiting runs in the order of the queue, then running ones by their end. */
export function QueueTable({ runs, now, addressOf }: { runs: readonly QueueRow[]; now: number; addressOf: (key: string) => string }) {
  const ordered = [...runs].sort(
    (a, b) => Number(a.state === "running") - Number(b.state === "running") || a.position - b.position || (a.endsAt || "~").localeCompare(b.endsAt || "~"),
  );
  return (
    <Box sx={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label="Runs with their expected times">
      <Table size="small" aria-label="Queue" sx={{ minWidth: 880 }}>
        <TableHead>
          <TableRow>
            {["Place", "State", "Run", "Owner", "GPUs", "Since", "Expected start", "Expected end", "Nodes"].map((word) => (
              <TableCell key={word} sx={{ color: "text.secondary" }}>
                {word}
              </TableCell>
            ))}
          </TableRow>
        </TableHead>
        <TableBody>
          {ordered.slice(0, MOST).map((run) => (
            <TableRow key={keyOf(run)} hover>
              <TableCell>{run.position || ""}</TableCell>
              <TableCell>
                <StateMark phase={run.state === "running" ? "Running" : "Queued"} />
              </TableCell>
              <TableCell>
                <Link to={addressOf(keyOf(run))}>{keyOf(run)}</Link>
              </TableCell>
              <TableCell>{run.owner}</TableCell>
              <TableCell sx={{ whiteSpace: "nowrap" }}>{run.gpus ? `${run.gpus} ${run.gpuType}` : ""}</TableCell>
              <TableCell sx={{ whiteSpace: "nowrap" }}>
                <Age time={run.state === "running" ? run.startsAt : run.queuedAt} />
              </TableCell>
              <TableCell>{run.state === "running" ? "" : run.startsAt ? ahead(run.startsAt, now) : "not known"}</TableCell>
              <TableCell title={exact(run.endsAt || undefined)}>{run.endsAt ? ahead(run.endsAt, now) : run.expectedSeconds ? "not known" : "none"}</TableCell>
              <TableCell sx={{ maxWidth: 240, overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }} title={run.nodes}>
                {run.nodes && (run.state === "running" ? run.nodes : `reserved: ${run.nodes}`)}
              </TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
      {ordered.length > MOST && <p>{`${ordered.length - MOST} more; filter to see them.`}</p>}
    </Box>
  );
}
