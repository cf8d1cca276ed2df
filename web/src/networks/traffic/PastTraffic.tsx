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
import { iso } from "../../choices/span";
import { bytes } from "../../words/amounts";
import { lineOf } from "../../words/commands";
import { CopyLine } from "../../common/CopyLine";
import { Since } from "../../words/times/Since";
import { VirtualTable, type Column } from "../../common/VirtualTable";
import { bytesWith, classesIn, gapsIn, nameOf, PAST_GROUPS, PAST_SPANS, type PastGroup, type SumRow } from "./past";
import { SpeedPlots } from "./SpeedPlots";

const REFRESH_MS = 60_000;
const MOST = 1_000;
const DAY_MS = 86_400_000;

interface Properties {
  parameters: URLSearchParams;
  change: (changes: Readonly<Record<string, string>>) => void;
}

/** Traffic of the last day, week, month or year by class of addresses: of the cluster, or of one team, person or run. */
export function PastTraffic({ parameters, change }: Properties) {
  const asked = parameters.get("by") ?? "";
  const by: PastGroup = Object.hasOwn(PAST_GROUPS, asked) ? (asked as PastGroup) : "namespace";
  const name = parameters.get("name") ?? "";
  const span = PAST_SPANS.has(parameters.get("time") ?? "") ? parameters.get("time")! : "7d";
  const past = useQuery({
    queryKey: ["traffic-history", by, name, span],
    queryFn: async () => {
      const since = iso(Date.now() - PAST_SPANS.get(span)![1] * DAY_MS);
      const ask = async (only: string) => contentOf(await client.GET("/v1/traffic/history", { params: { query: { by, since, limit: MOST, ...(only && { name: only }) } } }));
      const [all, one] = await Promise.all([ask(""), name ? ask(name) : null]);
      return { ...all, points: (one ?? all).points };
    },
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const classes = useMemo(() => (past.data ? classesIn(past.data) : []), [past.data]);
  const columns = useMemo(() => columnsOf(by, past.data?.orderClass ?? ""), [by, past.data?.orderClass]);
  const addressOf = (row: SumRow) => {
    const next = new URLSearchParams(parameters);
    next.set("name", nameOf(row));
    return `?${next}`;
  };
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <ToggleButtonGroup size="small" exclusive value={by} onChange={(_, next: PastGroup | null) => next && change({ by: next === "namespace" ? "" : next, name: "" })} aria-label="Sums of">
          {Object.entries(PAST_GROUPS).map(([value, word]) => (
            <ToggleButton key={value} value={value}>
              {word}
            </ToggleButton>
          ))}
        </ToggleButtonGroup>
        <TextField select size="small" label="Time" value={span} onChange={(event) => change({ time: event.target.value === "7d" ? "" : event.target.value })} sx={{ minWidth: 140 }}>
          {[...PAST_SPANS].map(([value, [word]]) => (
            <MenuItem key={value} value={value}>
              {word}
            </MenuItem>
          ))}
        </TextField>
        <Typography sx={{ overflowWrap: "anywhere" }}>{name ? `Traffic of ${name}` : "Traffic of the whole cluster"}</Typography>
        {name && (
          <Button size="small" onClick={() => change({ name: "" })}>
            Show the whole cluster
          </Button>
        )}
        <Since currentAt={past.dataUpdatedAt} error={past.error} />
      </Box>
      {past.error && !past.data && <Problem error={past.error} retry={() => void past.refetch()} />}
      {!past.data && !past.error && <Skeleton variant="rectangular" height={480} />}
      {past.data && (
        <>
          {classes.length > 0 && <SpeedPlots past={past.data} classes={classes} />}
          {!classes.length && (
            <Typography sx={{ my: 3 }}>
              Nothing was recorded in this time. Traffic is recorded every hour, from five minutes after the first start of a server; kaji agent --report on each node counts it.
            </Typography>
          )}
          {gapsIn(past.data).map((sentence) => (
            <Typography key={sentence} color="textSecondary">
              {sentence}
            </Typography>
          ))}
          {past.data.items.length > 0 && (
            <VirtualTable label="Traffic in this time" columns={columns} items={past.data.items} minWidth={720} keyOf={keyOf} addressOf={addressOf} opensOnClick />
          )}
          <Box sx={{ mt: 4 }}>
            <CopyLine text={lineOf("traffic", { "--since": span, "--by": by })} />
          </Box>
        </>
      )}
    </>
  );
}

function keyOf(row: SumRow): string {
  return `${nameOf(row)} ${row.runId ?? ""}`;
}

function columnsOf(by: PastGroup, orderClass: string): Column<SumRow>[] {
  const others = ({ classes }: SumRow) =>
    classes
      .filter(({ name }) => name !== orderClass)
      .map(({ name, sent, received }) => `${name} ${bytes(sent + received)}`)
      .join(", ");
  return [
    { name: { namespace: "Team", user: "Person", run: "Run" }[by], width: "minmax(140px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, cell: nameOf },
    ...(by === "run" ? [{ name: "Person", width: "minmax(80px, 1fr)", cell: ({ user }: SumRow) => user ?? "" }] : []),
    { name: `To ${orderClass}`, width: "120px", phone: "88px", right: true, cell: (row) => bytes(bytesWith(row, orderClass, "sent")) },
    { name: `From ${orderClass}`, width: "120px", phone: "96px", right: true, cell: (row) => bytes(bytesWith(row, orderClass, "received")) },
    { name: "With others", width: "minmax(120px, 2fr)", cell: others },
  ];
}
