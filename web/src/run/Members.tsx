import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { Age } from "../words/Age";
import { membersOf } from "./status";

const SHOWN = 200;

/** The members of a run in its newest attempt: the first 200, with where they run and how they are. */
export function Members({ run, showLog }: { run: Run; showLog: (rank: number) => void }) {
  const members = useQuery({
    queryKey: ["members", run.uid],
    queryFn: async () =>
      contentOf(
        await client.GET("/v1/runs/{namespace}/{name}/members", {
          params: { path: { namespace: run.namespace, name: run.name }, query: { limit: SHOWN } },
        }),
      ),
    refetchInterval: 3_000,
  });
  if (members.error && !members.data) return <Problem error={members.error} retry={() => void members.refetch()} />;
  if (!members.data) return null;
  if (!members.data.items.length) return <Typography color="textSecondary">No member exists now.</Typography>;
  return (
    <Box sx={{ overflowX: "auto" }}>
      <Table size="small">
        <TableHead>
          <TableRow>
            <TableCell align="right">Rank</TableCell>
            <TableCell>State</TableCell>
            <TableCell>Node</TableCell>
            <TableCell align="right">Attempt</TableCell>
            <TableCell>Started</TableCell>
            <TableCell>Why</TableCell>
            <TableCell />
          </TableRow>
        </TableHead>
        <TableBody>
          {members.data.items.map((member) => (
            <TableRow key={member.pod}>
              <TableCell align="right">{member.rank}</TableCell>
              <TableCell>{member.terminating ? "Ending" : member.phase}</TableCell>
              <TableCell>{member.node}</TableCell>
              <TableCell align="right">{member.attempt}</TableCell>
              <TableCell>
                <Age time={member.startedAt} />
              </TableCell>
              <TableCell>{[member.reason, member.message].filter(Boolean).join(": ")}</TableCell>
              <TableCell>
                <Button size="small" onClick={() => showLog(member.rank)}>
                  Log
                </Button>
              </TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
      {membersOf(run).total > SHOWN && (
        <Typography color="textSecondary" sx={{ mt: 2 }}>
          The first {SHOWN} of {membersOf(run).total} members.
        </Typography>
      )}
    </Box>
  );
}
