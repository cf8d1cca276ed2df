import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useAddress, withValues } from "../../address/useAddress";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { seconds } from "../../figures/series";
import { Age } from "../../words/times/Age";
import { CopyLine } from "../../common/CopyLine";
import { saveFile } from "../../common/saveFile";
import { commandOf, holdersOf, nodeCsv, plotsOf, RANGES, spansOf, USUAL_RANGE, type NodeMetrics } from "./figures";
import { FigureTable } from "./FigureTable";
import { Holders } from "./Holders";
import type { NodeDetail } from "./NodePanel";
import { NodePlot } from "./NodePlot";

const REFRESH_MS = 60_000;

/** What a node and its GPUs did over time, and which runs held it. The address holds the time and the GPU. */
export default function NodeFigures({ node }: { node: NodeDetail }) {
  const [parameters, changeAddress] = useAddress();
  const asked = parameters.get("since") ?? "";
  const range = asked in RANGES ? asked : USUAL_RANGE;
  const { name } = node;
  const metrics = useQuery({
    queryKey: ["node-metrics", name, range],
    queryFn: async () => {
      const query = { since: range, points: RANGES[range]?.points ?? 60 };
      return contentOf(await client.GET("/v1/nodes/{name}/metrics", { params: { path: { name }, query } }));
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const gpus = metrics.data?.gpus ?? 0;
  const number = Number(parameters.get("gpu") || Number.NaN);
  const gpu = Number.isInteger(number) && number >= 0 && number < gpus ? number : null;
  const set = (values: Readonly<Record<string, string>>) => changeAddress((newest) => withValues(newest, values));
  const chooseGpu = (chosen: number | null) => set({ gpu: chosen === null ? "" : `${chosen}` });
  return (
    <Box component="section" aria-label="Figures over time" sx={{ my: 3 }}>
      <Typography variant="h3" sx={{ fontSize: 14, fontWeight: 600, mb: 3 }}>
        Over time
      </Typography>
      <Box sx={{ display: "flex", flexWrap: "wrap", gap: 3, mb: 3 }}>
        <TextField select size="small" label="Time" value={range} onChange={(event) => set({ since: event.target.value === USUAL_RANGE ? "" : event.target.value })} sx={{ minWidth: 120 }}>
          {Object.entries(RANGES).map(([value, { word }]) => (
            <MenuItem key={value} value={value}>
              {word}
            </MenuItem>
          ))}
        </TextField>
        {gpus > 1 && (
          <TextField select size="small" label="GPU" value={gpu ?? "all"} onChange={(event) => chooseGpu(event.target.value === "all" ? null : Number(event.target.value))} sx={{ minWidth: 120 }}>
            <MenuItem value="all">{`All ${gpus} GPUs`}</MenuItem>
            {Array.from({ length: gpus }, (_, each) => (
              <MenuItem key={each} value={each}>
                {`GPU ${each}`}
              </MenuItem>
            ))}
          </TextField>
        )}
      </Box>
      {metrics.error && !metrics.data && <Problem error={metrics.error} retry={() => void metrics.refetch()} />}
      {!metrics.data && !metrics.error && <Skeleton variant="rectangular" height={480} />}
      {metrics.data && !metrics.data.at.length && <Nothing found={metrics.data} />}
      {metrics.data && metrics.data.at.length > 0 && <Plots found={metrics.data} node={node} gpu={gpu} range={range} chooseGpu={chooseGpu} />}
    </Box>
  );
}

/** Why there are no figures. */
function Nothing({ found: { lastAt } }: { found: NodeMetrics }) {
  return (
    <Typography color="textSecondary">
      {lastAt ? (
        <>
          No agent reported this node in this time. The last report came <Age time={lastAt} />.
        </>
      ) : (
        "No agent reported this node in the last week, so nothing is known. An agent's first report comes after two minutes; simulated nodes have no agent."
      )}
    </Typography>
  );
}

interface Properties {
  found: NodeMetrics;
  node: NodeDetail;
  gpu: number | null;
  range: string;
  chooseGpu: (gpu: number) => void;
}

function Plots({ found, node, gpu, range, chooseGpu }: Properties) {
  const totals = { cpuCores: node.cpuMillis.total / 1000, memoryBytes: node.memoryBytes.total };
  const plots = useMemo(() => plotsOf(found, gpu, totals), [found, gpu, totals.cpuCores, totals.memoryBytes]);
  const holders = useMemo(() => holdersOf(found, gpu), [found, gpu]);
  const marks = useMemo(() => ({ attempts: [], checkpoints: [], spans: spansOf(holders) }), [holders]);
  const ends = useMemo(() => [seconds(found.since), seconds(found.until)] as const, [found]);
  return (
    <>
      <Box sx={{ display: "grid", gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 360px), 1fr))", gap: 4 }}>
        {plots.map((plot) => (
          <NodePlot key={plot.name} plot={plot} range={ends} marks={marks} holders={holders} chooseGpu={chooseGpu} />
        ))}
      </Box>
      <Holders holders={holders} gpus={found.gpus} />
      <FigureTable plots={plots} holders={holders} />
      <Button size="small" variant="outlined" sx={{ my: 3 }} onClick={() => saveFile(`${node.name}.csv`, nodeCsv(found))}>
        Save as CSV
      </Button>
      <CopyLine text={commandOf(node.name, range, gpu)} />
    </>
  );
}
