import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import { Age } from "../words/Age";
import { whyOf, type Entry } from "./audit";

const COLOURS: Record<string, string> = { refused: "warning.main", failed: "error.main" };
const SHORT = { whiteSpace: "nowrap", verticalAlign: "top" } as const;
const WORDS = { overflowWrap: "anywhere", verticalAlign: "top", minWidth: 120 } as const;

/** Entries of the audit trail; why something was refused stands whole, since it is what people look for. */
export function AuditTable({ entries }: { entries: readonly Entry[] }) {
  return (
    <Box sx={{ overflowX: "auto" }} tabIndex={0}>
      <Table size="small" aria-label="Audit trail" sx={{ minWidth: 880 }}>
        <TableHead>
          <TableRow>
            <TableCell>When</TableCell>
            <TableCell>Who</TableCell>
            <TableCell>From</TableCell>
            <TableCell>Action</TableCell>
            <TableCell>Object</TableCell>
            <TableCell>Outcome</TableCell>
            <TableCell>Why</TableCell>
          </TableRow>
        </TableHead>
        <TableBody>
          {entries.map((entry, index) => (
            <TableRow key={index}>
              <TableCell sx={SHORT}>
                <Age time={entry.at} />
              </TableCell>
              <TableCell sx={WORDS}>{entry.actor}</TableCell>
              <TableCell sx={SHORT}>{entry.source}</TableCell>
              <TableCell sx={SHORT}>{entry.action}</TableCell>
              <TableCell sx={WORDS}>{[entry.object, entry.namespace && `in ${entry.namespace}`].filter(Boolean).join(" ")}</TableCell>
              <TableCell sx={{ ...SHORT, color: COLOURS[entry.outcome] }}>{entry.outcome}</TableCell>
              <TableCell sx={{ ...WORDS, minWidth: 200 }}>{whyOf(entry)}</TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </Box>
  );
}
