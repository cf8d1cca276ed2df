import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useEffect, useMemo, useRef, useState } from "react";
import { Link, NavigationType, useLocation, useNavigate, useNavigationType, useSearchParams } from "react-router";
import type { Phase } from "../api/client";
import { Problem } from "../app/Problem";
import { StateMark } from "../states/StateMark";
import { STATES } from "../states/states";
import { ColumnChoice } from "../table/ColumnChoice";
import { ordered } from "../table/sorting";
import { useColumns } from "../table/useColumns";
import { useInPlace } from "../table/useInPlace";
import { useRowKeys } from "../table/useRowKeys";
import { useSelection } from "../table/useSelection";
import { CopyLine } from "../words/CopyLine";
import { Since } from "../words/Since";
import { BulkBar } from "./BulkBar";
import { COLUMNS, SORT_KEYS } from "./columns";
import { counted, filterOf, fits, parametersOf, selectionOf, WHOSE, type Filter, type Whose } from "./filter";
import { addressOf, RunTable, uidOf } from "./RunTable";
import { useMyTeams } from "./useMyTeams";
import { useRuns } from "./useRuns";

/** All runs that a person may see, with a filter and an order that stand in the address. */
export function RunsPage() {
  const [parameters, setParameters] = useSearchParams();
  const addressed = useMemo(() => filterOf(parameters), [parameters]);
  const [text, setText] = useTypedText(addressed.text);
  const filter = useMemo(() => ({ ...addressed, text }), [addressed, text]);
  const search = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  const teams = useMyTeams();
  const runs = useRuns(selectionOf(filter.whose, teams));
  const counts = useMemo(() => counted(runs.rows ?? []), [runs.rows]);
  const fitting = useMemo(
    () => ordered((runs.rows ?? []).filter((run) => fits(run, filter)), filter.order, SORT_KEYS),
    [runs.rows, filter],
  );
  const { rows: shown, fresh, setHovered } = useInPlace(fitting, uidOf, parametersOf(filter).toString());
  const [columns, chooseColumns] = useColumns("runs", COLUMNS);
  const selection = useSelection(uidOf);
  const selected = useMemo(() => shown.filter(selection.has), [shown, selection]);
  const current = useRowKeys(shown, uidOf, {
    open: (run) => void navigate(addressOf(run)),
    search: () => search.current?.focus(),
    choose: selection.toggle,
    clear: selection.clear,
  });
  const change = (part: Partial<Filter>) => setParameters(parametersOf({ ...filter, ...part }), { replace: true });

  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Runs
        </Typography>
        <Since currentAt={runs.currentAt} error={runs.error} />
        <ToggleButtonGroup
          size="small"
          exclusive
          value={filter.whose}
          onChange={(_, whose) => whose && change({ whose })}
          aria-label="Whose runs"
        >
          {(Object.keys(WHOSE) as Whose[])
            .filter((whose) => whose !== "team" || filter.whose === "team" || teams?.length)
            .map((whose) => (
              <ToggleButton key={whose} value={whose}>
                {WHOSE[whose]}
              </ToggleButton>
            ))}
        </ToggleButtonGroup>
        <TextField
          size="small"
          inputRef={search}
          value={filter.text}
          onChange={(event) => {
            setText(event.target.value);
            change({ text: event.target.value });
          }}
          onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
          placeholder="Filter by name, owner, state …"
          slotProps={{ htmlInput: { "aria-label": "Filter", dir: "auto" } }}
          sx={{ width: { xs: "100%", sm: 280 } }}
        />
        <ColumnChoice columns={COLUMNS} chosen={columns} choose={chooseColumns} />
      </Box>
      <Phases counts={counts} chosen={filter.phases} choose={(phases) => change({ phases })} />
      <BulkBar runs={selected} clear={selection.clear} />
      {runs.error && !runs.rows && <Problem error={runs.error} />}
      {!runs.rows && !runs.error && <Skeleton variant="rectangular" height={320} />}
      {fresh > 0 && (
        <Typography role="status" color="textSecondary">
          {fresh} new {fresh === 1 ? "run" : "runs"}, shown when the pointer leaves the table.
        </Typography>
      )}
      {runs.rows && !shown.length && <Nothing any={runs.rows.length > 0} />}
      {shown.length > 0 && (
        <RunTable
          runs={shown}
          columns={columns}
          current={current}
          selection={selection}
          order={filter.order}
          sort={(order) => change({ order })}
          onHover={setHovered}
        />
      )}
    </>
  );
}

/** Return the text of an input whose value also stands in the address. The address follows the typing a moment later, so it sets the text only when the person goes back or forward. */
function useTypedText(addressed: string) {
  const [text, setText] = useState(addressed);
  const { key } = useLocation();
  const kind = useNavigationType();
  useEffect(() => {
    if (kind === NavigationType.Pop) setText(addressed);
  }, [key, kind]);
  return [text, setText] as const;
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
      <Button component={Link} to="/start" variant="contained" sx={{ mt: 4 }}>
        Start a run
      </Button>
    </Box>
  );
}
