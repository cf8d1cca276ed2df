import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useDeferredValue, useMemo } from "react";
import { useNavigate, useParams } from "react-router";
import { useView } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { Since } from "../words/Since";
import { DIMENSIONS, legendOf, type Dimension, type Legend } from "./colours";
import { markedBy, nodesOf, parametersOf, viewOf } from "./filter";
import { KindMark } from "./KindMark";
import { NodeMap } from "./NodeMap";
import { NodePanel } from "./NodePanel";
import { NodeTable } from "./NodeTable";
import { useTemperatures } from "./useTemperatures";
import { useNodes } from "./useNodes";
import { useExplanation, useWaiting } from "./useRoom";

/** All nodes at a glance, and one of them beside it. */
export function ClusterPage() {
  const { node: selected = "" } = useParams();
  const navigate = useNavigate();
  const live = useNodes();
  const [view, change] = useView(viewOf, parametersOf);
  const addressOf = (name: string) => `/cluster${name ? `/${encodeURIComponent(name)}` : ""}${suffix(parametersOf(view))}`;
  const nodes = live.nodes ?? [];
  const celsius = useTemperatures(view.by === "temperature");
  const legend = useMemo(() => legendOf(view.by, nodes, celsius), [view.by, nodes, celsius]);
  const explained = useExplanation(view.room);
  const making = useMemo(() => (view.room && explained.data ? nodesOf(explained.data.toFree ?? []) : null), [view.room, explained.data]);
  const text = useDeferredValue(view.text);
  const marked = useMemo(() => markedBy(nodes, { ...view, text }, legend, making), [nodes, view, text, legend, making]);

  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Cluster
        </Typography>
        <Since currentAt={live.currentAt} error={live.error} />
        <ToggleButtonGroup size="small" exclusive value={view.asTable} onChange={(_, asTable) => asTable !== null && change({ asTable })} aria-label="Show as">
          <ToggleButton value={false}>Map</ToggleButton>
          <ToggleButton value={true}>Table</ToggleButton>
        </ToggleButtonGroup>
        <TextField select size="small" label="Colour by" value={view.by} onChange={(event) => change({ by: event.target.value as Dimension, kinds: [] })} sx={{ width: 150 }}>
          {Object.entries(DIMENSIONS).map(([key, word]) => (
            <MenuItem key={key} value={key}>
              {word}
            </MenuItem>
          ))}
        </TextField>
        <RoomChoice room={view.room} choose={(room) => change({ room })} />
        <TextField
          size="small"
          value={view.text}
          onChange={(event) => change({ text: event.target.value })}
          placeholder="Node, rack, run, owner …"
          slotProps={{ htmlInput: { "aria-label": "Filter" } }}
          sx={{ width: 220 }}
        />
      </Box>
      {live.error && !live.nodes && <Problem error={live.error} />}
      {!live.nodes && !live.error && <Skeleton variant="rectangular" height={480} />}
      {live.nodes && (
        <>
          <Kinds legend={legend} chosen={view.kinds} choose={(kinds) => change({ kinds })} />
          {view.room && <RoomWords room={view.room} found={explained.data} error={explained.error} nodes={making?.size ?? 0} />}
          {marked && <Typography role="status" color="textSecondary" sx={{ mb: 2 }}>{`${marked.size} of ${nodes.length} nodes`}</Typography>}
          {!nodes.length && <Typography>The cluster has no nodes yet. An operator adds them with <code>kubectl</code> or, on one machine, <code>kaji up --nodes 8</code>.</Typography>}
          <Box sx={{ display: "grid", gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: selected ? "minmax(0, 1fr) 380px" : "minmax(0, 1fr)" }, gap: 4, alignItems: "start" }}>
            {view.asTable ? (
              <NodeTable nodes={marked ? nodes.filter(({ name }) => marked.has(name)) : nodes} addressOf={addressOf} />
            ) : (
              <NodeMap nodes={nodes} legend={legend} marked={marked} selected={selected} select={(name) => void navigate(addressOf(name))} />
            )}
            {selected && (
              <Box sx={{ order: { xs: -1, lg: 0 }, minWidth: 0 }}>
                <NodePanel key={selected} name={selected} close={() => void navigate(addressOf(""))} />
              </Box>
            )}
          </Box>
        </>
      )}
    </>
  );
}

/** The legend: what the cells mean, with counts. A click shows only these nodes. */
function Kinds({ legend, chosen, choose }: { legend: Legend; chosen: string[]; choose: (kinds: string[]) => void }) {
  return (
    <ToggleButtonGroup size="small" value={chosen} onChange={(_, kinds: string[]) => choose(kinds)} aria-label="Legend" sx={{ mb: 3, flexWrap: "wrap" }}>
      {legend.kinds.map(({ kind, count }) => (
        <ToggleButton key={kind.key} value={kind.key} sx={{ gap: 2, maxWidth: 280, color: "text.primary" }}>
          <KindMark kind={kind} />
          <Box component="span" sx={{ overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }} title={kind.word}>
            {kind.word}
          </Box>
          {count}
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}

/** A choice among the waiting runs, the person's own first: the map then shows what would make room. */
function RoomChoice({ room, choose }: { room: string; choose: (room: string) => void }) {
  const waiting = useWaiting();
  if (!waiting.length && !room) return null;
  return (
    <TextField select size="small" label="What makes room for" value={room} onChange={(event) => choose(event.target.value)} sx={{ width: 220 }}>
      <MenuItem value="">No run</MenuItem>
      {[...new Set(room ? [room, ...waiting] : waiting)].map((key) => (
        <MenuItem key={key} value={key}>
          {key}
        </MenuItem>
      ))}
    </TextField>
  );
}

interface Found {
  message: string;
  toFree?: { kind: string }[];
}

function RoomWords({ room, found, error, nodes }: { room: string; found: Found | undefined; error: Error | null; nodes: number }) {
  if (error) return <Problem error={error} />;
  if (!found) return null;
  const steps = found.toFree?.length ?? 0;
  const said = steps ? `${room} starts after ${steps} ${steps === 1 ? "step" : "steps"} on ${nodes} ${nodes === 1 ? "node" : "nodes"}, which the map shows.` : `${room}: nothing that has to end is known.`;
  return (
    <Typography sx={{ mb: 2 }}>
      {said} {found.message && `Why it waits: ${found.message}.`}
    </Typography>
  );
}

function suffix(parameters: URLSearchParams): string {
  const text = parameters.toString();
  return text && `?${text}`;
}
