import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import FormControlLabel from "@mui/material/FormControlLabel";
import Switch from "@mui/material/Switch";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { saveFile } from "../common/saveFile";
import { Wrapped } from "../common/Wrapped";
import { rowsCsv } from "./lines";
import type { Comparison, CompareView } from "./view";

const PARTS = [
  ["asked", "Asked for"],
  ["outcome", "What became of it"],
  ["figures", "Last values of what the programs wrote"],
] as const;

/** Width of a column on a phone, and the most that it takes on a wide window: values of a row stay near each other. */
const LEAST_PX = 140;
const MOST_PX = 360;

interface Properties {
  comparison: Comparison;
  names: readonly string[];
  all: boolean;
  change: (part: Partial<CompareView>) => void;
}

/** What the runs asked for, what became of them, and their last figures: the differences, or all values. */
export function Differences({ comparison: { runs, rows }, names, all, change }: Properties) {
  const shown = rows.filter(({ differs }) => all || differs);
  const same = rows.length - rows.filter(({ differs }) => differs).length;
  return (
    <Box component="section" aria-label="Differences" sx={{ mb: 5 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4 }}>
        <Typography variant="h2" sx={{ flex: "1 1 auto" }}>
          {all ? "All values" : "What differs"}
        </Typography>
        <FormControlLabel
          control={<Switch size="small" checked={!all} onChange={(_, checked) => change({ all: !checked })} />}
          label={`Differences only${same ? ` (${same} values are the same)` : ""}`}
          sx={{ mx: 0 }}
        />
        <Button size="small" onClick={() => saveFile("compared.csv", rowsCsv(runs, shown))}>
          Save table as CSV
        </Button>
      </Box>
      {!shown.length && <Typography color="textSecondary">{runs.length > 1 ? "Nothing differs." : "There is one run only, so nothing differs."}</Typography>}
      {shown.length > 0 && (
        <Box sx={{ overflowX: "auto" }} tabIndex={0} role="region" aria-label="Table of values">
          <Table size="small" aria-label="Values of the runs" sx={{ minWidth: LEAST_PX * (runs.length + 1), maxWidth: MOST_PX * (runs.length + 1), tableLayout: "fixed", "& th, & td": { px: 2, verticalAlign: "top", overflowWrap: "anywhere" } }}>
            <TableHead>
              <TableRow>
                <TableCell sx={NAME}>Value</TableCell>
                {names.map((name) => (
                  <TableCell key={name}>
                    <bdi>{name}</bdi>
                  </TableCell>
                ))}
              </TableRow>
            </TableHead>
            {PARTS.map(([part, title]) => (
              <Part key={part} title={title} rows={shown.filter((row) => row.part === part)} columns={names.length + 1} marks={all} />
            ))}
          </Table>
        </Box>
      )}
    </Box>
  );
}

const NAME = { width: { xs: 120, sm: 200 }, position: "sticky", left: 0, bgcolor: "background.default", zIndex: 1 } as const;

function Part({ title, rows, columns, marks }: { title: string; rows: Comparison["rows"]; columns: number; marks: boolean }) {
  if (!rows.length) return null;
  return (
    <TableBody>
      <TableRow>
        <TableCell component="th" scope="rowgroup" colSpan={columns} sx={{ color: "text.secondary", fontWeight: 400, pt: 3 }}>
          {title}
        </TableCell>
      </TableRow>
      {rows.map(({ name, values, differs }) => (
        <TableRow key={name} sx={marks && differs ? { bgcolor: "action.hover" } : {}}>
          <TableCell component="th" scope="row" sx={NAME}>
            <bdi>{name}</bdi>
            {marks && differs && <Box component="span" sx={{ color: "text.secondary" }}> differs</Box>}
          </TableCell>
          {values.map((value, index) => (
            <TableCell key={index}>{value ? <bdi title={value}><Wrapped text={shortened(value)} /></bdi> : <Box component="span" sx={{ color: "text.secondary" }}>–</Box>}</TableCell>
          ))}
        </TableRow>
      ))}
    </TableBody>
  );
}

/** Return a digest with its beginning only; the whole one appears under the pointer. */
function shortened(value: string): string {
  return /^sha256:[0-9a-f]{64}$/.test(value) ? `${value.slice(0, 19)}…` : value;
}
