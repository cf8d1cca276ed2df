import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { membersOn } from "../cluster/names";
import { Age } from "../words/times/Age";
import { duration, secondsBetween } from "../words/times/times";
import type { ShownRun } from "./data/findRun";

/** The attempts of a removed run, the newest first: where they ran, for how long, and how each ended. */
export function PastAttempts({ run }: { run: ShownRun }) {
  if (!run.pastAttempts.length) return <Typography color="textSecondary">It never had nodes.</Typography>;
  return (
    <Box sx={{ overflowX: "auto" }} tabIndex={0}>
      <Table size="small" aria-label="Attempts" sx={{ minWidth: 640 }}>
        <TableHead>
          <TableRow>
            <TableCell align="right">Attempt</TableCell>
            <TableCell>Nodes</TableCell>
            <TableCell>Started</TableCell>
            <TableCell align="right">Lasted</TableCell>
            <TableCell>How it ended</TableCell>
          </TableRow>
        </TableHead>
        <TableBody>
          {[...run.pastAttempts].reverse().map(({ number, nodes, plannedAt, startedAt, endedAt, reason, message }) => {
            const seconds = secondsBetween(startedAt, endedAt);
            return (
              <TableRow key={number}>
                <TableCell align="right">{number}</TableCell>
                <TableCell sx={{ overflowWrap: "anywhere" }}>{membersOn(nodes)}</TableCell>
                <TableCell>{startedAt ? <Age time={startedAt} /> : plannedAt && "never all of it"}</TableCell>
                <TableCell align="right">{seconds === null ? "" : duration(seconds)}</TableCell>
                <TableCell sx={{ overflowWrap: "anywhere" }}>{[reason, message].filter(Boolean).join(": ")}</TableCell>
              </TableRow>
            );
          })}
        </TableBody>
      </Table>
    </Box>
  );
}
