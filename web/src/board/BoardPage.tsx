import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import { Age } from "../words/Age";
import { Since } from "../words/Since";
import { largestFirst, type Board } from "./board";
import { MonthUse } from "./MonthUse";
import { TypeBar } from "./TypeBar";
import { useBoard } from "./useBoard";

/** Which GPUs are at work, idle, free and broken, and who holds them: made to be shown on a wall. */
export function BoardPage() {
  const board = useBoard();
  if (board.error && !board.data) return <Problem error={board.error} retry={() => void board.refetch()} />;
  if (!board.data) return <Skeleton variant="rectangular" height={320} />;
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 4, mb: 5 }}>
        <Typography variant="h1" sx={{ flex: 1 }}>
          GPUs
        </Typography>
        <Since currentAt={board.dataUpdatedAt} error={board.error} />
      </Box>
      {board.data.types.length ? (
        board.data.types.map((found) => <TypeBar key={found.type} found={found} />)
      ) : (
        <Typography color="textSecondary">No node of this cluster has GPUs.</Typography>
      )}
      {board.data.holdings.length > 0 && <Holdings board={board.data} />}
      <MonthUse />
    </>
  );
}

function Holdings({ board }: { board: Board }) {
  return (
    <Box sx={{ overflowX: "auto" }}>
      <Table size="small" aria-label="Who holds GPUs" sx={{ "& td, & th": { px: { xs: 1, sm: 4 } } }}>
        <TableHead>
          <TableRow>
            <TableCell>Owner</TableCell>
            <TableCell>Team</TableCell>
            <TableCell>Type</TableCell>
            <TableCell align="right">GPUs</TableCell>
            <TableCell align="right">Idle</TableCell>
            <TableCell align="right">Since</TableCell>
          </TableRow>
        </TableHead>
        <TableBody>
          {largestFirst(board.holdings).map(({ owner, namespace, type, gpus, idle, since }) => (
            <TableRow key={`${owner} ${namespace} ${type} ${since}`}>
              <TableCell>{owner || "no run"}</TableCell>
              <TableCell>{namespace}</TableCell>
              <TableCell>{type}</TableCell>
              <TableCell align="right">{gpus}</TableCell>
              <TableCell align="right">{idle || ""}</TableCell>
              <TableCell align="right" sx={{ whiteSpace: "nowrap" }}>
                <Age time={since} />
              </TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </Box>
  );
}
