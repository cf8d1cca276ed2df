import Box from "@mui/material/Box";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo, useRef } from "react";
import type { Phase } from "../api/client";
import type { Item } from "../beside/address";
import { Beside } from "../beside/Beside";
import { useBeside } from "../beside/useBeside";
import { WIDE_PX } from "../beside/useOpening";
import { StateMark } from "../states/StateMark";
import { STATES } from "../states/states";
import { ColumnChoice } from "../table/ColumnChoice";
import { useColumns } from "../table/useColumns";
import { useRowKeys } from "../table/useRowKeys";
import { useSelection } from "../table/useSelection";
import { CopyLine } from "../words/CopyLine";
import { BulkBar } from "../verbs/BulkBar";
import { count } from "../words/amounts";
import { BESIDE_COLUMNS, COLUMNS } from "./columns";
import { counted } from "./filter";
import { RunBeside } from "./RunBeside";
import { RunListHead, RunListNotices } from "./RunListHead";
import type { Row } from "./rows";
import { RunTable, uidOf } from "./RunTable";
import { StartButton } from "./StartButton";
import { useRunList } from "./useRunList";

const NONE: readonly Row[] = [];

/** All runs that a person may see, with a filter and an order that stand in the address. `opened` is the run beside them. */
export function RunList({ opened }: { opened: Item | null }) {
  const list = useRunList();
  const { filter, change, live, shown } = list;
  const search = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const beside = useBeside("/runs", opened, box);
  const counts = useMemo(() => counted(live.rows ?? []), [live.rows]);
  const [columns, chooseColumns] = useColumns("runs", COLUMNS);
  const selection = useSelection(uidOf);
  const selected = useMemo(() => shown.filter(selection.has), [shown, selection]);
  const openedRow = useMemo(() => shown.find(({ namespace, name }) => name === opened?.name && namespace === opened.namespace), [shown, opened?.namespace, opened?.name]);
  const keys = {
    open: opened ? beside.toPage : beside.open,
    follow: beside.follow,
    search: () => search.current?.focus(),
    choose: selection.toggle,
    clear: opened ? beside.close : selection.clear,
  };
  const current = useRowKeys(shown, uidOf, keys, opened && (openedRow?.uid ?? ""));
  const panel = opened && (
    <RunBeside
      run={opened}
      row={current}
      close={beside.close}
      toPage={() => {
        beside.choose(false);
        beside.toPage(opened);
      }}
    />
  );

  return (
    <Beside panel={panel} fromPx={WIDE_PX} columns="clamp(380px, 32%, 520px) minmax(0, 1fr)">
      <RunListHead title="Runs" list={list} search={search} placeholder="Filter by name, owner, state …" isNarrow={opened !== null}>
        {!opened && <ColumnChoice columns={COLUMNS} chosen={columns} choose={chooseColumns} />}
      </RunListHead>
      <Phases counts={counts} chosen={filter.phases} choose={(phases) => change({ phases })} />
      <BulkBar runs={selected} all={live.rows ?? NONE} clear={selection.clear} />
      <RunListNotices list={list} one="run" many="runs" />
      {live.rows && !shown.length && <Nothing any={live.rows.length > 0} />}
      <div ref={box}>
        {shown.length > 0 && (
          <RunTable
            runs={shown}
            columns={opened ? BESIDE_COLUMNS : columns}
            minWidth={opened ? 0 : 960}
            addressOf={beside.addressOf}
            current={current}
            selection={selection}
            order={filter.order}
            sort={(order) => change({ order })}
            onHover={list.setHovered}
          />
        )}
      </div>
    </Beside>
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
            <StateMark phase={phase} /> {count(counts.get(phase) ?? 0)}
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
