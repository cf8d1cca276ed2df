import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { client, contentOf, type Run } from "../api/client";
import { MONOSPACE } from "../app/theme";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { membersOf } from "../run/data/status";
import { bytes } from "../words/amounts";
import { lineOf } from "../words/commands";
import { duration } from "../words/times/times";
import { processorsUsed, processorTime, type Look, type Process } from "./processes";
import { ProgramSignalDialog } from "./ProgramSignalDialog";
import { SignalDialog } from "./SignalDialog";

const LOOK_MS = 3_000;
const MOST = 200;

interface Properties {
  run: Run;
  rank: number;
  chooseRank: (rank: number) => void;
}

/** The processes of one member, looked at every few seconds, and signals for them. */
export function ProcessesPanel({ run, rank, chooseRank }: Properties) {
  const [isSignalling, setIsSignalling] = useState(false);
  return (
    <>
      {membersOf(run).total > 1 && (
        <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
          <TextField size="small" label="Rank" type="number" value={rank} onChange={(event) => chooseRank(Math.max(0, Number(event.target.value) || 0))} sx={{ width: 96 }} />
          <Button size="small" variant="outlined" onClick={() => setIsSignalling(true)}>
            Signal all members
          </Button>
        </Box>
      )}
      {isSignalling && <ProgramSignalDialog run={run} close={() => setIsSignalling(false)} />}
      <Processes key={rank} run={run} rank={rank} />
    </>
  );
}

function Processes({ run, rank }: Omit<Properties, "chooseRank">) {
  const { namespace, name, uid } = run;
  const looks = useRef<[Look | null, Look | null]>([null, null]);
  const found = useQuery({
    queryKey: ["processes", uid, rank],
    queryFn: async ({ signal }) => {
      const { node, items } = contentOf(await client.GET("/v1/runs/{namespace}/{name}/processes", { params: { path: { namespace, name }, query: { rank } }, signal }));
      looks.current = [looks.current[1], { at: Date.now(), items }];
      return { node, items, used: processorsUsed(looks.current[0], { at: Date.now(), items }) };
    },
    refetchInterval: ({ state }) => (state.error ? false : LOOK_MS),
    retry: false,
  });
  const [chosen, setChosen] = useState<Process | null>(null);
  const [told, setTold] = useState("");
  if (found.error && !found.data) return <Problem error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Skeleton variant="rectangular" height={160} />;
  const { node, items, used } = found.data;
  return (
    <>
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {told && (
        <Alert severity="success" role="status" onClose={() => setTold("")} sx={{ mb: 3 }}>
          {told}
        </Alert>
      )}
      <Box tabIndex={0} role="region" aria-label="Processes" sx={{ overflowX: "auto" }}>
        <Table size="small" aria-label={`Processes of rank ${rank}`} sx={{ minWidth: 640, "& .MuiTableCell-alignRight": { whiteSpace: "nowrap" } }}>
          <TableHead>
            <TableRow>
              <TableCell align="right">PID</TableCell>
              <TableCell align="right">Cores</TableCell>
              <TableCell align="right">CPU time</TableCell>
              <TableCell align="right">Memory</TableCell>
              <TableCell align="right">Age</TableCell>
              <TableCell>Command</TableCell>
              <TableCell />
            </TableRow>
          </TableHead>
          <TableBody>
            {items.slice(0, MOST).map((process) => (
              <TableRow key={process.pid} hover>
                <TableCell align="right">{process.pid}</TableCell>
                <TableCell align="right">{used.get(process.pid)?.toFixed(2)}</TableCell>
                <TableCell align="right">{processorTime(process.cpuSeconds)}</TableCell>
                <TableCell align="right">{bytes(process.memoryBytes)}</TableCell>
                <TableCell align="right">{duration(process.ageSeconds)}</TableCell>
                <TableCell sx={{ fontFamily: MONOSPACE, fontSize: 12.5, overflowWrap: "anywhere", width: "60%" }}>{process.command}</TableCell>
                <TableCell align="right">
                  <Button size="small" aria-label={`Send a signal to process ${process.pid}`} onClick={() => setChosen(process)}>
                    Signal
                  </Button>
                </TableCell>
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Box>
      <Typography color="textSecondary" sx={{ my: 2, overflowWrap: "anywhere" }}>
        {items.length > MOST && `${items.length - MOST} more are not shown. `}
        Read on {node} every {LOOK_MS / 1000} s; <i>Cores</i> are those used between two looks. In a terminal:
      </Typography>
      <CopyLine text={lineOf("top", { "-N": namespace, "--rank": rank ? `${rank}` : "" }, [name])} />
      {chosen && (
        <SignalDialog
          run={run}
          rank={rank}
          process={chosen}
          close={() => setChosen(null)}
          sent={(signal) => {
            setTold(`Process ${chosen.pid} got ${signal}.`);
            setChosen(null);
            void found.refetch();
          }}
        />
      )}
    </>
  );
}
