import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useEffect, useMemo, useRef } from "react";
import type { Phase } from "../api/client";
import { later } from "../app/parts";
import type { Item } from "../sidepanel/address";
import { Beside, WHOLE_ITEM } from "../sidepanel/Beside";
import { useRowsBeside } from "../sidepanel/useRowsBeside";
import { StateMark } from "../states/StateMark";
import { STATES } from "../states/states";
import { ColumnChoice } from "../table/columns/ColumnChoice";
import { ExportMenu } from "../table/ExportMenu";
import { useColumns } from "../table/columns/useColumns";
import { useSelection } from "../table/useSelection";
import { CopyLine } from "../common/CopyLine";
import { BulkBar } from "../verbs/BulkBar";
import { ViewMenu } from "../views/ViewMenu";
import { count } from "../words/amounts";
import { BESIDE_COLUMNS, columnsFor } from "./columns/columns";
import { NEED_FIGURES } from "./columns/figureColumns";
import { commandOf, csvOf } from "./columns/exports";
import { parametersOf, selectionOf } from "./filter/filter";
import { Nothing } from "./Nothing";
import { PruneButton } from "./prune/PruneButton";
import { RunBeside } from "./RunBeside";
import { RunListHead, RunListNotices } from "./RunListHead";
import type { Row } from "./data/rows";
import { RunTable, uidOf } from "./RunTable";
import { StartButton } from "./StartButton";
import { readFigures } from "./columns/useFigures";
import { useRunList } from "./data/useRunList";

const RunPage = later(async () => (await import("../run/RunPage")).RunPage);

const NONE: readonly Row[] = [];

/** All runs that a person may see, with a filter and an order that stand in the address. `opened` is the run beside them. */
export function RunList({ opened }: { opened: Item | null }) {
  const list = useRunList();
  const { filter, change, live, counts, shown, see } = list;
  const search = useRef<HTMLInputElement>(null);
  const phases = useMemo(() => new Set((live.rows ?? NONE).map(({ phase }) => phase)), [live.rows]);
  const hasGpus = useMemo(() => (live.rows ?? NONE).some(({ gpus }) => gpus > 0), [live.rows]);
  const all = useMemo(() => columnsFor(filter.whose, hasGpus), [filter.whose, hasGpus]);
  const [columns, chooseColumns] = useColumns("runs", all);
  const hasFigures = !opened && columns.some(({ name }) => NEED_FIGURES.has(name));
  useEffect(() => {
    if (!hasFigures) see(NONE);
  }, [hasFigures, see]);
  const selection = useSelection(uidOf);
  const selected = useMemo(() => shown.filter(selection.has), [shown, selection]);
  const keys = { search: () => search.current?.focus(), choose: selection.toggle, clear: selection.clear };
  const beside = useRowsBeside("/runs", shown, opened, keys);
  const panel = opened && (
    <RunBeside word="Run" run={opened} row={beside.current} close={beside.close} toPage={() => beside.stayPage(opened)}>
      <RunPage namespace={opened.namespace} name={opened.name} leave={beside.close} isPart />
    </RunBeside>
  );

  return (
    <Beside panel={panel} {...WHOLE_ITEM}>
      <RunListHead title="Runs" list={list} search={search} placeholder="Filter by name, label, note …" isNarrow={opened !== null}>
        {!opened && (
          <>
            <ViewMenu table="runs" parameters={parametersOf(filter)} />
            <ExportMenu name="runs" rows={shown.length} {...commandOf(filter)} csv={async () => csvOf(shown, await readFigures(selectionOf(filter.whose, list.teams) ?? ""))} />
            <ColumnChoice columns={all} chosen={columns} choose={chooseColumns} />
            {filter.whose === "mine" && phases.size > 0 && <PruneButton mine={live.rows ?? NONE} />}
          </>
        )}
      </RunListHead>
      <Phases phases={phases} counts={counts} chosen={filter.phases} choose={(phases) => change({ phases })} />
      <BulkBar runs={selected} all={live.rows ?? NONE} clear={selection.clear} />
      <RunListNotices list={list} one="run" many="runs" />
      {live.rows && !shown.length && (
        <Nothing one="run" whose={filter.whose} any={live.rows.length > 0} showAll={() => change({ whose: "all" })}>
          <Typography gutterBottom>Start one here, or in a terminal:</Typography>
          <CopyLine text="kaji run python:3.11 python -c 'print(42)'" />
          <StartButton />
        </Nothing>
      )}
      <div ref={beside.box}>
        {shown.length > 0 && (
          <RunTable
            runs={shown}
            columns={opened ? BESIDE_COLUMNS : columns}
            minWidth={opened ? 0 : 960}
            addressOf={beside.addressOf}
            current={beside.current}
            focus={beside.focus}
            selection={selection}
            order={filter.order}
            sort={(order) => change({ order })}
            onHover={list.setHovered}
            onVisible={hasFigures ? see : undefined}
          />
        )}
      </div>
    </Beside>
  );
}

/** The states of all runs, each with the number of runs that fit the filter's text. */
function Phases({
  phases,
  counts,
  chosen,
  choose,
}: {
  phases: Set<Phase>;
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
        .filter((phase) => phases.has(phase) || chosen.includes(phase))
        .map((phase) => (
          <ToggleButton key={phase} value={phase} sx={{ gap: 2 }}>
            <StateMark phase={phase} /> {count(counts.get(phase) ?? 0)}
          </ToggleButton>
        ))}
    </ToggleButtonGroup>
  );
}
