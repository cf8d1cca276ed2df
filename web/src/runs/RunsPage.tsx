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
import { CopyLine } from "../words/CopyLine";
import { Since } from "../words/Since";
import { counted, filterOf, fits, parametersOf, type Filter } from "./filter";
import { addressOf, RunTable } from "./RunTable";
import { useRowKeys } from "./useRowKeys";
import { useRuns } from "./useRuns";

/** All runs that a person may see, with a filter that stands in the address. */
export function RunsPage() {
  const [parameters, setParameters] = useSearchParams();
  const addressed = useMemo(() => filterOf(parameters), [parameters]);
  const [text, setText] = useTypedText(addressed.text);
  const filter = useMemo(() => ({ ...addressed, text }), [addressed, text]);
  const search = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  const runs = useRuns(filter.whose);
  const counts = useMemo(() => counted(runs.rows ?? []), [runs.rows]);
  const shown = useMemo(() => (runs.rows ?? []).filter((run) => fits(run, filter)), [runs.rows, filter]);
  const selected = useRowKeys(shown.length, {
    open: (index) => shown[index] && navigate(addressOf(shown[index])),
    search: () => search.current?.focus(),
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
          <ToggleButton value="mine">Mine</ToggleButton>
          <ToggleButton value="all">All</ToggleButton>
        </ToggleButtonGroup>
        <TextField
          size="small"
          inputRef={search}
          value={filter.text}
          onChange={(event) => {
            setText(event.target.value);
            change({ text: event.target.value });
          }}
          placeholder="Filter by name, owner, state …"
          slotProps={{ htmlInput: { "aria-label": "Filter" } }}
          sx={{ width: 280 }}
        />
      </Box>
      <Phases counts={counts} chosen={filter.phases} choose={(phases) => change({ phases })} />
      {runs.error && !runs.rows && <Problem error={runs.error} />}
      {!runs.rows && !runs.error && <Skeleton variant="rectangular" height={320} />}
      {runs.rows && (shown.length ? <RunTable runs={shown} selected={selected} /> : <Nothing any={runs.rows.length > 0} />)}
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
  if (any) return <Typography color="text.secondary">No run fits the filter.</Typography>;
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
