import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { CopyLine } from "../common/CopyLine";
import { rowsOf } from "./guarantees";
import { useGpus } from "./useGpus";

const REFRESH_MS = 15_000;

/** What teams are guaranteed, how much of it they use, and what is left. Nothing if policy guarantees nothing. */
export function Guarantees() {
  const rows = rowsOf(useGpus(REFRESH_MS).data?.guarantees ?? []);
  if (!rows.length) return null;
  return (
    <Box component="section" aria-label="Guarantees" sx={{ my: 6 }}>
      <Typography component="h2" sx={{ fontSize: 24, fontWeight: 600 }}>
        Guarantees
      </Typography>
      <Typography color="textSecondary" sx={{ mb: 2 }}>
        Other teams may use what a team leaves. Their runs are preempted when it needs its own.
      </Typography>
      <Box sx={{ overflowX: "auto" }} tabIndex={0}>
        <Table size="small" aria-label="What teams are guaranteed" sx={{ "& td, & th": { px: { xs: 1, sm: 4 } } }}>
          <TableHead>
            <TableRow>
              <TableCell>Team</TableCell>
              <TableCell>Guaranteed</TableCell>
              <TableCell align="right">In use</TableCell>
              <TableCell align="right">Left</TableCell>
              <TableCell align="right">Borrowed</TableCell>
              <TableCell sx={{ display: { xs: "none", sm: "table-cell" }, width: "30%" }} aria-label="Part in use" />
            </TableRow>
          </TableHead>
          <TableBody>
            {rows.map(({ team, what, used, total, left, borrowed, part }) => (
              <TableRow key={`${team} ${what}`}>
                <TableCell>{team}</TableCell>
                <TableCell>{what === "memory" ? `${total} of memory` : `${total} ${what}`}</TableCell>
                <TableCell align="right">{used}</TableCell>
                <TableCell align="right">{left}</TableCell>
                <TableCell align="right">{borrowed}</TableCell>
                <TableCell sx={{ display: { xs: "none", sm: "table-cell" } }}>
                  <Box aria-hidden sx={{ height: 8, borderRadius: "2px", bgcolor: "action.hover" }}>
                    <Box sx={{ height: 8, borderRadius: "2px", bgcolor: borrowed ? "warning.main" : "primary.main", width: `${100 * part}%` }} />
                  </Box>
                </TableCell>
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Box>
      <Box sx={{ mt: 3 }}>
        <CopyLine text="kaji gpus" />
      </Box>
    </Box>
  );
}
