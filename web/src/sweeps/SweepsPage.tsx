import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo, useRef } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { Problem } from "../app/Problem";
import { SORT_KEYS } from "../runs/columns";
import { filterOf, fits, parametersOf, selectionOf, WHOSE, type Filter, type Whose } from "../runs/filter";
import type { Row } from "../runs/rows";
import { uidOf } from "../runs/RunTable";
import { useMyTeams } from "../runs/useMyTeams";
import { useRuns } from "../runs/useRuns";
import { StateMark } from "../states/StateMark";
import { ordered } from "../table/sorting";
import { useInPlace } from "../table/useInPlace";
import { useRowKeys } from "../table/useRowKeys";
import { Age } from "../words/Age";
import { CopyLine } from "../words/CopyLine";
import { Since } from "../words/Since";
import { VirtualTable, type Column } from "../words/VirtualTable";
import { BestResult } from "./BestResult";
import { ProgressBar, progressWords } from "./Progress";

const COLUMNS: Column<Row>[] = [
  { name: "State", width: "112px", phone: "98px", sort: "phase", cell: ({ phase }) => <StateMark phase={phase} /> },
  { name: "Sweep", width: "minmax(140px, 2fr)", phone: "minmax(0, 1fr)", isLink: true, sort: "name", cell: ({ name }) => name },
  { name: "Best so far", width: "minmax(160px, 2fr)", cell: (sweep) => <BestResult sweep={sweep} succeeded={sweep.members.succeeded ?? 0} /> },
  { name: "Progress", width: "120px", phone: "80px", cell: ({ members }) => <ProgressBar counts={countsOf(members)} /> },
  { name: "Members", width: "minmax(160px, 2fr)", sort: "members", descending: true, cell: ({ members }) => progressWords(countsOf(members)) },
  { name: "Owner", width: "minmax(80px, 1fr)", sort: "owner", cell: ({ owner }) => owner },
  { name: "Team", width: "minmax(80px, 1fr)", sort: "namespace", cell: ({ namespace }) => namespace },
  { name: "Age", width: "96px", right: true, sort: "createdAt", descending: true, cell: ({ createdAt }) => <Age time={createdAt} /> },
];

/** All sweeps that a person may see, with how far they are and their best results. */
export function SweepsPage() {
  const [parameters, setParameters] = useSearchParams();
  const filter = useMemo(() => filterOf(parameters), [parameters]);
  const search = useRef<HTMLInputElement>(null);
  const navigate = useNavigate();
  const teams = useMyTeams();
  const selection = selectionOf(filter.whose, teams);
  const live = useRuns(selection === null ? null : ["sweep=true", selection].filter(Boolean).join("&"));
  const fitting = useMemo(() => ordered((live.rows ?? []).filter((row) => fits(row, filter)), filter.order, SORT_KEYS), [live.rows, filter]);
  const { rows: shown, fresh, setHovered } = useInPlace(fitting, uidOf, `${parameters}`);
  const current = useRowKeys(shown, uidOf, { open: (sweep) => void navigate(addressOf(sweep)), search: () => search.current?.focus() });
  const change = (part: Partial<Filter>) => setParameters(parametersOf({ ...filter, ...part }), { replace: true });
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Sweeps
        </Typography>
        <Since currentAt={live.currentAt} error={live.error} />
        <ToggleButtonGroup size="small" exclusive value={filter.whose} onChange={(_, whose: Whose | null) => whose && change({ whose })} aria-label="Whose sweeps">
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
          onChange={(event) => change({ text: event.target.value })}
          onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
          placeholder="Name, owner, team, state …"
          slotProps={{ htmlInput: { "aria-label": "Filter" } }}
          sx={{ width: { xs: "100%", sm: 240 } }}
        />
      </Box>
      {live.error && !live.rows && <Problem error={live.error} />}
      {!live.rows && !live.error && <Skeleton variant="rectangular" height={320} />}
      {fresh > 0 && (
        <Typography role="status" color="textSecondary">
          {fresh} new {fresh === 1 ? "sweep" : "sweeps"}, shown when the pointer leaves the table.
        </Typography>
      )}
      {live.rows && !shown.length && <Nothing any={live.rows.length > 0} />}
      {shown.length > 0 && (
        <VirtualTable
          label="Sweeps"
          columns={COLUMNS}
          items={shown}
          minWidth={1080}
          keyOf={uidOf}
          addressOf={addressOf}
          current={current}
          nameOf={({ name, phase, members }) => `${name}, ${phase}, ${progressWords(countsOf(members))}`}
          opensOnClick
          order={filter.order}
          sort={(order) => change({ order })}
          onHover={setHovered}
        />
      )}
      {shown.length > 0 && (
        <Box sx={{ mt: 4 }}>
          <CopyLine text={`kaji ps -a ${filter.whose === "mine" ? "" : "--all-users "}--filter sweep=true`} />
        </Box>
      )}
    </>
  );
}

function countsOf({ total = 0, succeeded = 0, failed = 0, running = 0, pending = 0 }: Row["members"]) {
  return { total, succeeded, failed, running, pending };
}

function addressOf({ namespace, name }: Row): string {
  return `/sweeps/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
}

function Nothing({ any }: { any: boolean }) {
  if (any) return <Typography color="textSecondary">No sweep fits the filter.</Typography>;
  return (
    <Box sx={{ maxWidth: 720 }}>
      <Typography gutterBottom>
        There are no sweeps yet. A sweep is one run of many members, each with its own number in KAJI_ARRAY_INDEX; what a member writes to the file in KAJI_RESULT is its result here:
      </Typography>
      <CopyLine text={`kaji run --array 0-9%4 python:3.11 python3 -c 'import json, os; i = int(os.environ["KAJI_ARRAY_INDEX"]); json.dump({"lr": 10**-i, "loss": (i - 4)**2}, open(os.environ["KAJI_RESULT"], "w"))'`} wraps />
    </Box>
  );
}
