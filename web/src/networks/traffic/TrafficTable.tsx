import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { useInPlace } from "../../table/useInPlace";
import { lineOf } from "../../words/commands";
import { CopyLine } from "../../common/CopyLine";
import { Since } from "../../words/times/Since";
import { duration } from "../../words/times/times";
import { VirtualTable } from "../../common/VirtualTable";
import { RunTraffic } from "./RunTraffic";
import { classesOf, GROUPS, missingOf, optionsOf, type Group, type TrafficRow } from "./traffic";
import { trafficColumns } from "./trafficColumns";

const REFRESH_MS = 10_000;
const MOST = 1_000;

interface Properties {
  parameters: URLSearchParams;
  change: (changes: Readonly<Record<string, string>>) => void;
}

/** Who talks to the internet, or to another class of addresses, and how much. */
export function TrafficTable({ parameters, change }: Properties) {
  const asked = parameters.get("by") ?? "";
  const by: Group = Object.hasOwn(GROUPS, asked) ? (asked as Group) : "run";
  const orderClass = parameters.get("class") ?? "";
  const text = parameters.get("text") ?? "";
  const selected = by === "run" ? (parameters.get("run") ?? "") : "";
  const traffic = useQuery({
    queryKey: ["traffic", by, orderClass],
    queryFn: async () => contentOf(await client.GET("/v1/traffic", { params: { query: { by, limit: MOST, ...(orderClass && { class: orderClass }) } } })),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const items = traffic.data?.items;
  const fitting = useMemo(() => (items ?? []).filter((row) => fits(row, text)), [items, text]);
  const { rows, setHovered } = useInPlace(fitting, keyOf, `${by} ${orderClass} ${text}`);
  const shownClass = orderClass || traffic.data?.orderClass || "";
  const columns = useMemo(() => trafficColumns(by, shownClass, items ?? []), [by, shownClass, items]);
  const addressOf = (row: TrafficRow) => addressOfRow(row, by, parameters);
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <ToggleButtonGroup size="small" exclusive value={by} onChange={(_, next: Group | null) => next && change({ by: next === "run" ? "" : next, run: "" })} aria-label="Sums of">
          {Object.entries(GROUPS).map(([value, word]) => (
            <ToggleButton key={value} value={value}>
              {word}
            </ToggleButton>
          ))}
        </ToggleButtonGroup>
        {traffic.data && (
          <TextField select size="small" label="Talk to" value={shownClass} onChange={(event) => change({ class: event.target.value })} sx={{ minWidth: 150 }}>
            {[...new Set([shownClass, ...classesOf(traffic.data)])].map((name) => (
              <MenuItem key={name} value={name}>
                {name}
              </MenuItem>
            ))}
          </TextField>
        )}
        <TextField size="small" value={text} onChange={(event) => change({ text: event.target.value })} placeholder="Name, team, person …" slotProps={{ htmlInput: { "aria-label": "Filter" } }} sx={{ width: { xs: "100%", sm: 220 } }} />
        <Since currentAt={traffic.dataUpdatedAt} error={traffic.error} />
      </Box>
      {traffic.error && !traffic.data && <Problem error={traffic.error} retry={() => void traffic.refetch()} />}
      {!traffic.data && !traffic.error && <Skeleton variant="rectangular" height={320} />}
      {traffic.data && (
        <Box sx={{ display: "grid", gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: selected ? "minmax(0, 1fr) 420px" : "minmax(0, 1fr)" }, gap: 4, alignItems: "start" }}>
          <Box sx={{ minWidth: 0 }}>
            {missingOf(traffic.data, by).map((sentence) => (
              <Typography key={sentence} color="textSecondary" sx={{ overflowWrap: "anywhere" }}>
                {sentence}
              </Typography>
            ))}
            {traffic.data.nodes.counted === 0 && <Uncounted showAddresses={() => change({ part: "use" })} />}
            {!rows.length && ((items?.length ?? 0) > 0 || traffic.data.nodes.counted > 0) && <Typography sx={{ my: 3 }}>{items?.length ? "Nothing fits the filter." : "Nothing was counted yet."}</Typography>}
            {rows.length > 0 && (
              <>
                <Typography color="textSecondary" sx={{ mb: 2 }}>
                  {`Speeds are averages of the last ${duration(traffic.data.rateSeconds)}; totals are since the counting began.`}
                </Typography>
                <VirtualTable label="Traffic" columns={columns} items={rows} minWidth={880} keyOf={keyOf} addressOf={addressOf} opensOnClick onHover={setHovered} />
              </>
            )}
            {traffic.data.total > (items?.length ?? 0) && <Typography color="textSecondary">{`The ${MOST} that talk most, of ${traffic.data.total}.`}</Typography>}
            {(rows.length > 0 || traffic.data.nodes.counted > 0) && (
              <Box sx={{ mt: 4 }}>
                <CopyLine text={lineOf("traffic", optionsOf(by, orderClass))} />
              </Box>
            )}
          </Box>
          {selected && (
            <Box sx={{ order: { xs: -1, lg: 0 }, minWidth: 0 }}>
              <RunTraffic key={selected} id={selected} close={() => change({ run: "" })} />
            </Box>
          )}
        </Box>
      )}
    </>
  );
}

/** How an operator switches on the counting of traffic; shown while nothing is counted. */
function Uncounted({ showAddresses }: { showAddresses: () => void }) {
  return (
    <Box sx={{ maxWidth: 720, mb: 4 }}>
      <Typography gutterBottom>No node is counted now. The agent on each node counts traffic, if an operator has started it so (deploy/agent.yaml):</Typography>
      <CopyLine text="kaji agent --report https://server:8600" />
      <Button variant="contained" onClick={showAddresses} sx={{ mt: 4 }}>
        Show addresses in use
      </Button>
    </Box>
  );
}

/** The address of a row: the panel of a run, the runs of a person or team, or the page of a node. */
function addressOfRow(row: TrafficRow, by: Group, held: URLSearchParams): string {
  if (by === "node") return `/cluster/${encodeURIComponent(row.name)}`;
  const next = new URLSearchParams(held);
  if (by === "run") next.set("run", keyOf(row));
  else {
    next.delete("by");
    next.set("text", row.name);
  }
  return `?${next}`;
}

function keyOf({ namespace, name, runId }: TrafficRow): string {
  return namespace ? `${namespace}/${name}${runId ? `/${runId}` : ""}` : name;
}

function fits({ name, namespace, user }: TrafficRow, text: string): boolean {
  const shown = [name, namespace, user].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => shown.includes(word));
}
