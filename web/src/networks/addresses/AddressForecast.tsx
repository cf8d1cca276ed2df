import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { LineNames } from "../../figures/plot/LineNames";
import { Plot } from "../../figures/plot/Plot";
import type { Columns } from "../../figures/series";
import { linesShape } from "../../figures/plot/shape";
import { CopyLine } from "../../common/CopyLine";
import { forecastWords, poolName, showsCapacity, type Forecast } from "./forecast";

const REFRESH_MS = 600_000;

/** When each pool of addresses runs out, with the history of its use. */
export function AddressForecast() {
  const forecast = useQuery({
    queryKey: ["networks-forecast"],
    queryFn: async () => contentOf(await client.GET("/v1/networks/forecast")),
    refetchInterval: REFRESH_MS,
  });
  if (forecast.error && !forecast.data) return <Problem error={forecast.error} retry={() => void forecast.refetch()} />;
  const items = forecast.data?.items ?? [];
  if (!items.length) return null;
  return (
    <Box component="section" aria-label="When addresses run out" sx={{ mb: 5 }}>
      <Typography variant="h2" gutterBottom>
        When addresses run out
      </Typography>
      <Box sx={{ display: "grid", gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 400px), 1fr))", gap: 5, mb: 3 }}>
        {items.map((item) => (
          <Pool key={`${item.kind} ${item.cidr}`} item={item} />
        ))}
      </Box>
      <CopyLine text="kaji network forecast" />
    </Box>
  );
}

function Pool({ item }: { item: Forecast }) {
  const columns = useMemo<Columns>(() => {
    const history = item.history ?? [];
    return [history.map(({ at }) => Date.parse(at) / 1000), history.map(({ used }) => used), ...(showsCapacity(item) ? [history.map(() => item.capacity)] : [])];
  }, [item]);
  const used = `${item.used.toLocaleString("en")} of ${item.capacity.toLocaleString("en")} ${item.unit} in use`;
  const isNear = item.state === "full" || item.state === "runs out";
  return (
    <Box sx={{ minWidth: 0 }}>
      <Typography component="h3" sx={{ fontWeight: 600, overflowWrap: "anywhere" }}>
        {poolName(item)}
      </Typography>
      <Typography color="textSecondary">{used}</Typography>
      <Typography color={isNear ? "warning" : "textPrimary"}>{forecastWords(item)}</Typography>
      {columns[0].length > 1 && (
        <>
          <LineNames names={["In use", ...(columns.length > 2 ? ["Capacity"] : [])]} label="Lines" />
          <Plot columns={columns} shape={linesShape(columns.length - 1)} label={`${poolName(item)} by day: ${used}`} format={(value) => value.toLocaleString("en")} onPoint={ignore} />
        </>
      )}
    </Box>
  );
}

function ignore() {
  // the lines have names, and the words above it do not follow the pointer
}
