import Box from "@mui/material/Box";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo, useRef } from "react";
import { useNavigate } from "react-router";
import type { Phase } from "../api/client";
import { StateMark } from "../states/StateMark";
import { STATES } from "../states/states";
import { ColumnChoice } from "../table/ColumnChoice";
import { useColumns } from "../table/useColumns";
import { useRowKeys } from "../table/useRowKeys";
import { useSelection } from "../table/useSelection";
import { CopyLine } from "../words/CopyLine";
import { BulkBar } from "../verbs/BulkBar";
import { COLUMNS } from "./columns";
import { counted } from "./filter";
import { RunListHead, RunListNotices } from "./RunListHead";
import { addressOf, RunTable, uidOf } from "./RunTable";
import { StartButton } from "./StartButton";
import { useRunList } from "./useRunList";
import { useStarts } from "./useStarts";

/** All runs that a person may see, with a filter and an order that stand in the address. */
export function RunsPage() {
  const list = useRunList();
  const { filter, change, live } = list;
  const shown = useStarts(list.shown);
  const search = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  const counts = useMemo(() => counted(live.rows ?? []), [live.rows]);
  const [columns, chooseColumns] = useColumns("runs", COLUMNS);
  const selection = useSelection(uidOf);
  const selected = useMemo(() => shown.filter(selection.has), [shown, selection]);
  const current = useRowKeys(shown, uidOf, {
    open: (run) => void navigate(addressOf(run)),
    search: () => search.current?.focus(),
    choose: selection.toggle,
    clear: selection.clear,
  });

  return (
    <>
      <RunListHead title="Runs" list={list} search={search} placeholder="Filter by name, owner, state …">
        <ColumnChoice columns={COLUMNS} chosen={columns} choose={chooseColumns} />
      </RunListHead>
      <Phases counts={counts} chosen={filter.phases} choose={(phases) => change({ phases })} />
      <BulkBar runs={selected} clear={selection.clear} />
      <RunListNotices list={list} one="run" many="runs" />
      {live.rows && !shown.length && <Nothing any={live.rows.length > 0} />}
      {shown.length > 0 && (
        <RunTable
          runs={shown}
          columns={columns}
          current={current}
          selection={selection}
          order={filter.order}
          sort={(order) => change({ order })}
          onHover={list.setHovered}
        />
      )}
    </>
  );
}

function Phases({
  counts,
  chosen,
  choose,
}: {
  counts: Map<Phase, number>;
  chosen: Phase[];
  choose: (phases: Phase[]) => void;
}) {
  return (
    <ToggleButtonGroup
      size="small"
      value={chosen}
      onChange={(_, phases: Phase[]) => choose(phases)}
      aria-label="States"
      sx={{ mb: 3, flexWrap: "wrap" }}
    >
      {(Object.keys(STATES) as Phase[])
        .filter((phase) => counts.has(phase) || chosen.includes(phase))
        .map((phase) => (
          <ToggleButton key={phase} value={phase} sx={{ gap: 2 }}>
            <StateMark phase={phase} /> {counts.get(phase) ?? 0}
          </ToggleButton>
        ))}
    </ToggleButtonGroup>
  );
}

function Nothing({ any }: { any: boolean }) {
  if (any) return <Typography color="textSecondary">No run fits the filter.</Typography>;
  return (
    <Box sx={{ maxWidth: 640 }}>
      <Typography gutterBottom>There are no runs yet. Start one here, or in a terminal:</Typography>
      <CopyLine text="kaji run python:3.11 python -c 'print(42)'" />
      <StartButton />
    </Box>
  );
}
