import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import { Age } from "../words/times/Age";
import { whyOf, type Entry } from "./audit";

const COLOURS: Record<string, string> = { refused: "warning.main", failed: "error.main" };
const SHORT = { whiteSpace: "nowrap", verticalAlign: "top" } as const;
/** A name is broken only on a phone. On wide screens a long one is cut; the whole one is its title. */
const NAME = { verticalAlign: "top", overflowWrap: { xs: "anywhere", sm: "normal" }, whiteSpace: { sm: "nowrap" }, minWidth: { xs: 76, sm: 0 }, maxWidth: { sm: 220 }, overflow: "hidden", textOverflow: "ellipsis" } as const;
const WORDS = { overflowWrap: "anywhere", verticalAlign: "top", minWidth: { xs: 56, sm: 120 } } as const;
/** Cells of wide screens; a phone has one cell with the words of all of them. */
const WIDE = { display: { xs: "none", sm: "table-cell" } } as const;
const PHONE = { display: { xs: "table-cell", sm: "none" } } as const;

/** Entries of the audit trail. The reason of a refusal is never shortened, since people look for it. */
export function AuditTable({ entries }: { entries: readonly Entry[] }) {
  return (
    <Box sx={{ overflowX: "auto" }} tabIndex={0}>
      <Table size="small" aria-label="Audit trail" sx={{ minWidth: { xs: 0, sm: 880 }, "& td, & th": { px: { xs: 1, sm: 2, lg: 4 } } }}>
        <TableHead>
          <TableRow>
            <TableCell>When</TableCell>
            <TableCell>Who</TableCell>
            <TableCell sx={PHONE}>What</TableCell>
            {["From", "Action", "Object", "Outcome", "Why"].map((word) => (
              <TableCell key={word} sx={WIDE}>
                {word}
              </TableCell>
            ))}
          </TableRow>
        </TableHead>
        <TableBody>
          {entries.map((entry, index) => (
            <TableRow key={index}>
              <TableCell sx={SHORT}>
                <Age time={entry.at} />
              </TableCell>
              <TableCell sx={NAME} title={entry.actor}>
                <bdi>{entry.actor}</bdi>
              </TableCell>
              <TableCell sx={{ ...WORDS, ...PHONE }}>
                {entry.action}: {objectOf(entry)}
                <Box sx={{ color: COLOURS[entry.outcome] ?? "text.secondary" }}>{[entry.outcome, whyOf(entry)].filter(Boolean).join("; ")}</Box>
              </TableCell>
              <TableCell sx={{ ...SHORT, ...WIDE }}>{entry.source}</TableCell>
              <TableCell sx={{ ...SHORT, ...WIDE }}>{entry.action}</TableCell>
              <TableCell sx={{ ...NAME, ...WIDE, maxWidth: 280 }} title={entry.object}>
                {objectOf(entry)}
              </TableCell>
              <TableCell sx={{ ...SHORT, ...WIDE, color: COLOURS[entry.outcome] }}>{entry.outcome}</TableCell>
              <TableCell sx={{ ...WORDS, ...WIDE, minWidth: 240 }}>{whyOf(entry)}</TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </Box>
  );
}

/** Return the changed object. Only the beginning of a digest is shown: a whole one fills three lines. */
function objectOf({ object, namespace }: Entry): string {
  return [object.replace(/(sha256:[0-9a-f]{12})[0-9a-f]{52}/, "$1…"), namespace && `in ${namespace}`].filter(Boolean).join(" ");
}
