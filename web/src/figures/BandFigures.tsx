import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { isFinal } from "../run/data/status";
import { useReport } from "../time/useReport";
import { lineOf } from "../words/commands";
import { CopyLine } from "../common/CopyLine";
import { saveFile } from "../common/saveFile";
import { BandPlot } from "./BandPlot";
import { csvOf } from "./csv";
import { PLOTS, TrainingCurves } from "./TrainingCurves";
import { stepsOf, type CurveView } from "./curves";
import { Marked } from "./Marked";
import { isOfTraining, marksOf, ordered, sharedRange } from "./series";

const REFRESH_MS = 30_000;

interface Properties {
  run: Run;
  /** Beginning: a duration before now, or a time. */
  since: string;
  view: CurveView;
  change: (part: Partial<CurveView>) => void;
  chooseRank: (rank: number) => void;
}

/** The figures of a run as bands over all ranks. */
export function BandFigures({ run, since, view, change, chooseRank }: Properties) {
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
  const shared = { intervalSeconds: metrics.data.intervalSeconds, range: sharedRange(series.map(({ points }) => points)), marks: marksOf(series, checkpoints), chooseRank };
  if (!series.length) {
    return (
      <Typography color="textSecondary">
        Nothing was measured in this time. The first figures appear two minutes after the start.
      </Typography>
    );
  }
  return (
    <>
      <Marked marks={shared.marks} />
      <TrainingCurves series={series} view={view} change={change} {...shared} />
      <Box sx={PLOTS}>
        {series
          .filter((each) => !isOfTraining(each))
          .map((each) => (
            <BandPlot key={each.name} series={each} {...shared} />
          ))}
      </Box>
      <Button size="small" variant="outlined" sx={{ my: 3 }} onClick={() => saveFile(`${name}.csv`, csvOf(series, view, stepsOf(series)))}>
        Save as CSV
      </Button>
      <CopyLine text={lineOf("metrics", { "-N": namespace, "--since": since }, [name])} />
    </>
  );
}
