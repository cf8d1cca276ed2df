import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useDeferredValue, useMemo, useRef } from "react";
import { useNavigate, useParams } from "react-router";
import { useView } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { Beside } from "../sidepanel/Beside";
import { ExportMenu } from "../table/ExportMenu";
import { ColumnChoice } from "../table/columns/ColumnChoice";
import { useColumns } from "../table/columns/useColumns";
import { ViewMenu } from "../views/ViewMenu";
import { Since } from "../words/times/Since";
import { DIMENSIONS, legendOf, type Dimension } from "./colours";
import { csvOf, markedBy, nodesOf, parametersOf, viewOf } from "./filter";
import { NodeLegend } from "./map/NodeLegend";
import { NodeMap } from "./map/NodeMap";
import { NodePanel } from "./node/NodePanel";
import { NodeTable } from "./NodeTable";
import { columnsOf } from "./nodeColumns";
import { useIdleRuns } from "./useIdleRuns";
import { useTemperatures } from "./useTemperatures";
import { useNodes } from "./useNodes";
import { RoomChoice } from "./room/RoomChoice";
import { RoomWords } from "./room/RoomWords";
import { useExplanation } from "./room/useRoom";

/** All nodes at a glance, and one of them beside it. */
export function ClusterPage() {
  const { node: selected = "" } = useParams();
  const navigate = useNavigate();
  const live = useNodes();
  const [view, change] = useView(viewOf, parametersOf);
  const addressOf = (name: string) => `/cluster${name ? `/${encodeURIComponent(name)}` : ""}${suffix(parametersOf(view))}`;
  const nodes = live.nodes ?? [];
  const celsius = useTemperatures(view.by === "temperature");
  const idle = useIdleRuns(view.by === "idle");
  const readings = useMemo(() => ({ celsius, idle }), [celsius, idle]);
  const legend = useMemo(() => legendOf(view.by, nodes, readings), [view.by, nodes, readings]);
  const columns = useMemo(() => columnsOf(view.by, DIMENSIONS[view.by], legend, readings), [view.by, legend, readings]);
  const [chosen, choose] = useColumns("nodes", columns);
  // The dimension of the colours is always shown.
  const shown = columns.filter((column) => chosen.includes(column) || column.name === DIMENSIONS[view.by]);
  const search = useRef<HTMLInputElement>(null);
  const explained = useExplanation(view.room);
  const making = useMemo(() => (view.room && explained.data ? nodesOf(explained.data.toFree ?? []) : null), [view.room, explained.data]);
  const text = useDeferredValue(view.text);
  const marked = useMemo(() => markedBy(nodes, { ...view, text }, legend, making), [nodes, view, text, legend, making]);
  const listed = useMemo(() => (marked ? nodes.filter(({ name }) => marked.has(name)) : nodes), [nodes, marked]);

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
        <TextField select size="small" label="Colour by" value={view.by} onChange={(event) => change({ by: event.target.value as Dimension, kinds: [] })} sx={{ width: 170 }}>
          {Object.entries(DIMENSIONS).map(([key, word]) => (
            <MenuItem key={key} value={key}>
              {word}
            </MenuItem>
          ))}
        </TextField>
        <RoomChoice room={view.room} choose={(room) => change({ room })} />
        <TextField
          size="small"
          inputRef={search}
          value={view.text}
          onChange={(event) => change({ text: event.target.value })}
          onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
          placeholder="Node, rack, run, owner …"
          slotProps={{ htmlInput: { "aria-label": "Filter" } }}
          sx={{ width: { xs: "100%", sm: 220 } }}
        />
        <ViewMenu table="nodes" parameters={parametersOf(view)} />
        <ExportMenu name="nodes" rows={listed.length} command="kaji nodes" missing={marked ? "The command lists all nodes." : ""} csv={() => csvOf(listed)} />
        {view.asTable && <ColumnChoice columns={columns} chosen={shown} choose={choose} />}
      </Box>
      {live.error && !live.nodes && <Problem error={live.error} />}
      {!live.nodes && !live.error && <Skeleton variant="rectangular" height={480} />}
      {live.nodes && (
        <>
          <NodeLegend legend={legend} chosen={view.kinds} choose={(kinds) => change({ kinds })} />
          {view.room && <RoomWords room={view.room} found={explained.data} error={explained.error} nodes={making?.size ?? 0} />}
          {marked && <Typography role="status" color="textSecondary" sx={{ mb: 2 }}>{`${marked.size} of ${nodes.length} nodes`}</Typography>}
          {!nodes.length && <Typography>The cluster has no nodes yet. An operator adds them with <code>kubectl</code> or, on one machine, <code>kaji up --nodes 8</code>.</Typography>}
          <Beside panel={selected && <NodePanel key={selected} name={selected} close={() => void navigate(addressOf(""))} />}>
            {view.asTable ? (
              <NodeTable
                nodes={listed}
                columns={shown}
                order={view.order}
                sort={(order) => change({ order })}
                addressOf={addressOf}
                search={() => search.current?.focus()}
              />
            ) : (
              <NodeMap nodes={nodes} legend={legend} marked={marked} selected={selected} select={(name) => void navigate(addressOf(name))} />
            )}
          </Beside>
        </>
      )}
    </>
  );
}

function suffix(parameters: URLSearchParams): string {
  const text = parameters.toString();
  return text && `?${text}`;
}
