import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { isFinal } from "../run/data/status";
import { useReport } from "../time/useReport";
import { lineOf } from "../words/commands";
import { CopyLine } from "../common/CopyLine";
import { PLOTS, TrainingCurves } from "./TrainingCurves";
import type { CurveView } from "./curves";
import { Marked } from "./Marked";
import { RankPlot } from "./RankPlot";
import { asBand, byName, inPlots, isOfTraining, SAMPLE_SECONDS, seconds, sharedRange } from "./series";

const REFRESH_MS = 30_000;

interface Properties {
  run: Run;
  rank: number;
  view: CurveView;
  change: (part: Partial<CurveView>) => void;
}

/** The last hour of one rank: the curves that its program wrote, and what it used. */
export function RankFigures({ run, rank, ...curves }: Properties) {
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
  const written = useMemo(() => (metrics.data?.series ?? []).filter(isOfTraining).map((each) => asBand(each, rank, metrics.data?.attempt ?? 0)), [metrics.data, rank]);
  if (metrics.error && !metrics.data) return <Problem error={metrics.error} retry={() => void metrics.refetch()} />;
  if (!metrics.data) return null;
  const { series } = metrics.data;
  if (!series.length) return <Typography color="textSecondary">Nothing was measured of this rank yet.</Typography>;
  const groups = [...byName(series.filter((each) => !isOfTraining(each)))].flatMap(([each, several]) => inPlots(several).map((part) => [each, part] as const));
  const shared = { range: sharedRange(series.map(({ samples }) => samples)), marks: { attempts: [], checkpoints: checkpoints.map(seconds) } };
  return (
    <>
      <Marked marks={shared.marks} />
      <TrainingCurves {...curves} {...shared} series={written} intervalSeconds={SAMPLE_SECONDS} />
      <Box sx={{ ...PLOTS, mb: 4 }}>
        {groups.map(([each, several]) => (
          <RankPlot key={`${each} ${several[0]?.gpu}`} series={several} {...shared} />
        ))}
      </Box>
      <CopyLine text={lineOf("metrics", { "-N": namespace, "--rank": `${rank}` }, [name])} />
    </>
  );
}
