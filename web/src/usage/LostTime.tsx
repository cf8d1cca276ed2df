import Box from "@mui/material/Box";
import Table from "@mui/material/Table";
import TableBody from "@mui/material/TableBody";
import TableCell from "@mui/material/TableCell";
import TableHead from "@mui/material/TableHead";
import TableRow from "@mui/material/TableRow";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { Problem } from "../app/Problem";
import { COLOURS } from "../time/categories";
import { CopyLine } from "../common/CopyLine";
import { lineOf } from "../words/commands";
import { reasonWords } from "../words/reason";
import { daysAsked, hasGpus, partsOf, ratioInWords, type Report } from "./lost";
import { boundsOf, daysOf, optionsOf } from "../choices/span";
import { hours, share, type Question } from "./usage";

const REFRESH_MS = 60_000;

/** How much of the held time was productive, and what each cause of a break cost. */
export function LostTime({ question }: { question: Question }) {
  const { span, team, owner } = question;
  const report = useQuery({
    queryKey: ["report-of-days", span, team, owner],
    queryFn: async () => {
      const query = { owner, namespace: team, ...daysAsked(boundsOf(span, Date.now())) };
      return contentOf(await client.GET("/v1/report", { params: { query } }));
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  if (report.error && !report.data) return <Problem error={report.error} retry={() => void report.refetch()} />;
  if (!report.data) return null;
  const found = report.data;
  return (
    <Box component="section" aria-label="Lost time" sx={{ minWidth: 0 }}>
      <Typography variant="h2" gutterBottom>
        Productive and lost time
      </Typography>
      <Typography gutterBottom>{ratioInWords(found)}</Typography>
      <Categories report={found} />
      {found.items.length > 0 ? (
        <Causes report={found} />
      ) : (
        found.ratio !== null && <Typography sx={{ my: 3 }}>Nothing ended early, so no cause cost time.</Typography>
      )}
      <Typography color="textSecondary" sx={{ my: 3 }}>
        Whole days (UTC): {daysOf(found)}.
      </Typography>
      <CopyLine text={lineOf("report", { "--owner": owner, "-N": team }, optionsOf(span, Date.now(), daysAsked))} />
    </Box>
  );
}

function Categories({ report }: { report: Report }) {
  const parts = partsOf(report);
  const whole = parts.reduce((sum, { seconds }) => sum + seconds, 0);
  if (!whole) return null;
  return (
    <>
      <Box aria-hidden sx={{ display: "flex", height: 24, borderRadius: 1, overflow: "hidden", gap: "2px", my: 3 }}>
        {parts.map(({ category, seconds }) => (
          <Box key={category} sx={{ flex: `${seconds} 0 3px`, bgcolor: COLOURS.get(category) ?? "text.disabled" }} />
        ))}
      </Box>
      <Box component="ul" sx={{ listStyle: "none", m: 0, p: 0 }}>
        {parts.map(({ category, meaning, seconds }) => (
          <Box component="li" key={category} sx={{ display: "flex", flexWrap: { xs: "wrap", sm: "nowrap" }, gap: 2, py: 0.5 }}>
            <Box
              component="span"
              aria-hidden
              sx={{ flex: "none", width: 12, height: 12, mt: 1, borderRadius: "2px", bgcolor: COLOURS.get(category) ?? "text.disabled" }}
            />
            <Box sx={{ flex: { xs: "1 1 75%", sm: 1 }, minWidth: 0 }}>
              {category}
              <Box component="span" sx={{ color: "text.secondary" }}>{`: ${meaning}`}</Box>
            </Box>
            <Box sx={{ flex: "none", ml: "auto" }}>
              {hours(seconds)} h, {share(seconds, whole)}
            </Box>
          </Box>
        ))}
      </Box>
    </>
  );
}

function Causes({ report }: { report: Report }) {
  const gpus = hasGpus(report);
  return (
    <Box sx={{ overflowX: "auto", mt: 4 }} tabIndex={0}>
      <Table size="small" aria-label="What each cause cost">
        <TableHead>
          <TableRow>
            <TableCell>Cause</TableCell>
            <TableCell align="right">Times</TableCell>
            <TableCell align="right">{gpus ? "GPU-hours" : "Member-hours"} lost</TableCell>
          </TableRow>
        </TableHead>
        <TableBody>
          {report.items.map(({ key, times, gpuSeconds, memberSeconds }) => (
            <TableRow key={key}>
              <TableCell>{reasonWords(key)}</TableCell>
              <TableCell align="right">{times.toLocaleString()}</TableCell>
              <TableCell align="right">{hours(gpus ? gpuSeconds : memberSeconds)}</TableCell>
            </TableRow>
          ))}
        </TableBody>
      </Table>
    </Box>
  );
}
