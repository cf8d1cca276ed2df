import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { isFinal, membersOf } from "../run/status";
import { useReport } from "../time/useReport";
import { saveFile } from "../words/saveFile";
import { BandPlot } from "./BandPlot";
import { RankPlot } from "./RankPlot";
import { byName, csvOf, inPlots, marksOf, ordered, sharedRange, type Marks } from "./series";

const RANGES: readonly [string, string][] = [
  ["1h", "Last hour"],
  ["6h", "Last 6 hours"],
  ["1d", "Last day"],
  ["7d", "Last 7 days"],
  ["all", "All"],
];
const REFRESH_MS = 30_000;
const PLOTS = { display: "grid", gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 480px), 1fr))", gap: 5 };

interface Properties {
  run: Run;
  /** The rank whose own figures are shown; null: bands over all ranks. */
  rank: number | null;
  chooseRank: (rank: number | null) => void;
}

/** Telemetry of a run, and the figures that its program wrote, over time. */
export function Figures({ run, rank, chooseRank }: Properties) {
  const [range, setRange] = useState(isFinal(run) ? "all" : "1h");
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 4 }}>
        {rank === null ? (
          <TextField select size="small" label="Time" value={range} onChange={(event) => setRange(event.target.value)}>
            {RANGES.map(([value, word]) => (
              <MenuItem key={value} value={value}>
                {word}
              </MenuItem>
            ))}
          </TextField>
        ) : (
          <Button size="small" variant="outlined" onClick={() => chooseRank(null)}>
            All ranks
          </Button>
        )}
        {membersOf(run).total > 1 && (
          <TextField
            size="small"
            label="Rank"
            type="number"
            value={rank ?? ""}
            onChange={(event) => chooseRank(event.target.value === "" ? null : Math.max(0, Number(event.target.value)))}
            sx={{ width: 96 }}
          />
        )}
        <Typography color="textSecondary">
          {rank === null
            ? "Median, and ranges of most and all ranks. Click a rank's extreme for the rank itself; drag to look closer."
            : `The last hour of rank ${rank}, as its node kept it.`}
        </Typography>
      </Box>
      {rank === null ? (
        <Bands run={run} since={range === "all" ? run.createdAt : range} chooseRank={chooseRank} />
      ) : (
        <OneRank key={rank} run={run} rank={rank} />
      )}
    </>
  );
}

/** The meaning of the marks in the plots, if there are any. */
function Marked({ marks: { attempts, checkpoints } }: { marks: Marks }) {
  const words = [...(attempts.length ? ["Dashed line: another attempt begins."] : []), ...(checkpoints.length ? ["▲: a checkpoint was written."] : [])];
  return words.length > 0 && <Typography color="textSecondary" sx={{ mb: 3 }}>{words.join(" ")}</Typography>;
}

function Bands({ run, since, chooseRank }: { run: Run; since: string; chooseRank: (rank: number) => void }) {
  const { namespace, name } = run;
  const checkpoints = useReport(run).data?.checkpoints.times ?? [];
  const metrics = useQuery({
    queryKey: ["metrics", run.uid, since],
    queryFn: async () => {
      const params = { path: { namespace, name }, query: { since } };
      return contentOf(await client.GET("/v1/runs/{namespace}/{name}/metrics", { params }));
    },
    refetchInterval: isFinal(run) ? false : REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  if (metrics.error && !metrics.data) return <Problem error={metrics.error} retry={() => void metrics.refetch()} />;
  if (!metrics.data) return null;
  const series = ordered(metrics.data.series);
  const range = sharedRange(series.map(({ points }) => points));
  const marks = marksOf(series, checkpoints);
  if (!series.length) {
    return (
      <Typography color="textSecondary">
        Nothing was measured in this time. The first figures appear two minutes after the start.
      </Typography>
    );
  }
  return (
    <>
      <Marked marks={marks} />
      <Box sx={PLOTS}>
        {series.map((each) => (
          <BandPlot
            key={each.name}
            series={each}
            intervalSeconds={metrics.data.intervalSeconds}
            range={range}
            marks={marks}
            chooseRank={chooseRank}
          />
        ))}
      </Box>
      <Button size="small" sx={{ mt: 4 }} onClick={() => saveFile(`${name}.csv`, csvOf(series))}>
        Save as CSV
      </Button>
    </>
  );
}

function OneRank({ run, rank }: { run: Run; rank: number }) {
  const { namespace, name } = run;
  const checkpoints = useReport(run).data?.checkpoints.times ?? [];
  const metrics = useQuery({
    queryKey: ["rank-metrics", run.uid, rank],
    queryFn: async () => {
      const params = { path: { namespace, name, rank }, query: {} };
      return contentOf(await client.GET("/v1/runs/{namespace}/{name}/members/{rank}/metrics", { params }));
    },
    refetchInterval: isFinal(run) ? false : REFRESH_MS,
    retry: false,
  });
  if (metrics.error && !metrics.data) return <Problem error={metrics.error} retry={() => void metrics.refetch()} />;
  if (!metrics.data) return null;
  const groups = [...byName(metrics.data.series)].flatMap(([each, series]) => inPlots(series).map((part) => [each, part] as const));
  const range = sharedRange(metrics.data.series.map(({ samples }) => samples));
  const marks = { attempts: [], checkpoints: checkpoints.map((time) => Date.parse(time) / 1_000) };
  if (!groups.length) return <Typography color="textSecondary">Nothing was measured of this rank yet.</Typography>;
  return (
    <>
      <Marked marks={marks} />
      <Box sx={PLOTS}>
        {groups.map(([each, series]) => (
          <RankPlot key={`${each} ${series[0]?.gpu}`} series={series} range={range} marks={marks} />
        ))}
      </Box>
    </>
  );
}
