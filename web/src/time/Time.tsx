import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import type { Run, Schemas } from "../api/client";
import { Problem } from "../app/Problem";
import { reasonWords } from "../words/reason";
import { duration } from "../words/times/times";
import { COLOURS, hours, share, shownOf } from "./categories";
import { useReport } from "./useReport";

/** Where the time of a run went, and what each cause of a break cost. */
export function Time({ run }: { run: Run }) {
  const report = useReport(run);
  if (report.error && !report.data) return <Problem error={report.error} retry={() => void report.refetch()} />;
  if (!report.data) return null;
  const { words, categories, causes } = report.data;
  const hasGpus = categories.some(({ gpuSeconds }) => gpuSeconds > 0);
  const unit = hasGpus ? "GPU hours" : "Member hours";
  return (
    <>
      {words.map((sentence) => (
        <Typography key={sentence}>{sentence}</Typography>
      ))}
      <Categories parts={shownOf(categories)} hasGpus={hasGpus} unit={unit} />
      {causes.length > 0 && <Causes causes={causes} hasGpus={hasGpus} unit={unit} />}
    </>
  );
}

interface Units {
  hasGpus: boolean;
  unit: string;
}

function Categories({ parts, hasGpus, unit }: { parts: Schemas["TimeOf"][] } & Units) {
  return (
    <>
      <Box aria-hidden sx={{ display: "flex", height: 24, borderRadius: 1, overflow: "hidden", gap: "2px", my: 4 }}>
        {parts.map(({ category, seconds }) => (
          <Box key={category} sx={{ flex: `${seconds} 0 3px`, bgcolor: COLOURS.get(category) ?? "text.disabled" }} />
        ))}
      </Box>
      <Box sx={{ overflowX: "auto" }}>
        <Table size="small" aria-label="Where the time went">
          <TableHead>
            <TableRow>
              <TableCell>Time</TableCell>
              <TableCell align="right">Lasted</TableCell>
              <TableCell align="right">Share</TableCell>
              <TableCell align="right">{unit}</TableCell>
              <TableCell>Meaning</TableCell>
            </TableRow>
          </TableHead>
          <TableBody>
            {parts.map((part) => (
              <TableRow key={part.category}>
                <TableCell>
                  <Box
                    component="span"
                    aria-hidden
                    sx={{
                      display: "inline-block",
                      width: 12,
                      height: 12,
                      borderRadius: "2px",
                      mr: 2,
                      bgcolor: COLOURS.get(part.category) ?? "text.disabled",
                    }}
                  />
                  {part.category}
                </TableCell>
                <TableCell align="right">{duration(part.seconds)}</TableCell>
                <TableCell align="right">{share(part, parts)}</TableCell>
                <TableCell align="right">{hours(part, hasGpus)}</TableCell>
                <TableCell>{part.meaning}</TableCell>
              </TableRow>
            ))}
          </TableBody>
        </Table>
      </Box>
    </>
  );
}

function Causes({ causes, hasGpus, unit }: { causes: Schemas["CauseView"][] } & Units) {
  return (
    <Box sx={{ overflowX: "auto", mt: 6 }}>
      <Table size="small" aria-label="What each cause cost">
        <TableHead>
          <TableRow>
            <TableCell>Cause</TableCell>
            <TableCell align="right">Times</TableCell>
            <TableCell align="right">{unit} lost</TableCell>
          </TableRow>
        </TableHead>
        <TableBody>
          {causes.map((found) => (
            <TableRow key={found.cause}>
              <TableCell>{reasonWords(found.cause)}</TableCell>
              <TableCell align="right">{found.times}</TableCell>
              <TableCell align="right">{hours(found, hasGpus)}</TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </Box>
  );
}
