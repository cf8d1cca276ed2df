import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import { useState } from "react";
import { Age } from "../words/times/Age";
import { count } from "../words/amounts";
import { largestFirst, othersInWords, type Board } from "./board";

/** Number of rows at first: a screen on a wall shows what stands below or beside them, too. */
const FIRST = 15;

/** Who holds how many GPUs since when, in letters that are read from across a room. */
export function Holdings({ board }: { board: Board }) {
  const [showsAll, showAll] = useState(false);
  const holdings = largestFirst(board.holdings);
  const shown = showsAll ? holdings : holdings.slice(0, FIRST);
  return (
    <>
      <Box sx={{ overflowX: "auto" }} tabIndex={0}>
        <Table size="small" aria-label="Who holds GPUs" sx={{ "& td, & th": { px: { xs: 1, sm: 4 } }, "& td": { fontSize: { xs: 14, md: 18 } }, "& th": { fontSize: { xs: 14, md: 16 }, color: "text.secondary" } }}>
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
            {shown.map(({ owner, namespace, type, gpus, idle, since }) => (
              <TableRow key={`${owner} ${namespace} ${type} ${since}`}>
                <TableCell>{owner || "no run"}</TableCell>
                <TableCell>{namespace}</TableCell>
                <TableCell>{type}</TableCell>
                <TableCell align="right">{count(gpus)}</TableCell>
                <TableCell align="right">{idle ? count(idle) : ""}</TableCell>
                <TableCell align="right" sx={{ whiteSpace: "nowrap" }}>
                  <Age time={since} />
                </TableCell>
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Box>
      {holdings.length > FIRST && (
        <Button onClick={() => showAll(!showsAll)} sx={{ mt: 1 }}>
          {showsAll ? "Show fewer" : othersInWords(holdings.slice(FIRST))}
        </Button>
      )}
    </>
  );
}
