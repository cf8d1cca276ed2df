import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo, useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import { useAddress, withValues } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { duration } from "../words/times";
import { AfterRuns, pageOf } from "../run/AfterRuns";
import { Since } from "../words/Since";
import { useNow } from "../words/useNow";
import { NoController } from "./NoController";
import { QueueMap } from "./QueueMap";
import { NewWhatIf } from "./QueueWhatIf";
import { QueueTable } from "./QueueTable";
import { RunPanel } from "./RunPanel";
import { spanned, SPANS, suitableSpan, type Rowed } from "./timeline";
import { isTrial } from "./trials";
import { useAbsentController } from "./useController";
import { useQueue, type QueueRow } from "./useQueue";
import { earliestWords, keyOf, unknownWords } from "./words";

/** The queue into the future: what runs until when, what is reserved, and when each waiting run is expected to start. */
export function QueuePage() {
  const { namespace = "", name = "" } = useParams();
  const selected = name && `${namespace}/${name}`;
  const [parameters, changeAddress] = useAddress();
  const navigate = useNavigate();
  const live = useQueue();
  const absent = useAbsentController();
  const now = useNow(30);
  const text = parameters.get("text") ?? "";
  const rowed: Rowed = parameters.get("rows") === "node" ? "node" : "type";
  const [trials, setTrials] = useState<readonly QueueRow[]>([]);
  const isTrying = parameters.get("try") === "new" && !selected;
  const hasPanel = selected !== "" || isTrying;
  const asTable = parameters.get("as") === "table";
  const runs = useMemo(() => (live.runs ?? []).filter((run) => fits(run, text)), [live.runs, text]);
  const drawn = useMemo(() => (trials.length ? [...runs, ...trials] : runs), [runs, trials]);
  const dependents = useMemo(() => live.dependents.filter((run) => fits(run, text)), [live.dependents, text]);
  const isThere = live.runs !== null;
  // Once chosen it stays, so that the timeline does not jump while one looks at it.
  const suited = useMemo(() => suitableSpan(live.runs ?? [], now), [isThere]);
  const hours = SPANS.find((span) => `${span}` === parameters.get("hours")) ?? suited;
  const [from, until] = spanned(now, hours);
  const change = (key: string, value: string) => changeAddress((newest) => withValues(newest, { [key]: value }));
  const open = (key: string) => {
    if (!isTrial({ namespace: key.split("/")[0] ?? "" })) void navigate(addressOf(key));
  };
  const suffix = parameters.size ? `?${parameters}` : "";
  const addressOf = (key: string) => `/queue${key ? `/${key.split("/").map(encodeURIComponent).join("/")}` : ""}${suffix}`;
  const waiting = runs.filter(({ state }) => state === "waiting");
  const unknown = waiting.filter(({ startsAt }) => !startsAt).sort((a, b) => a.position - b.position);

  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Queue
        </Typography>
        <Since currentAt={live.currentAt} error={live.error} />
        <ToggleButtonGroup size="small" exclusive value={asTable} onChange={(_, next) => next !== null && change("as", next ? "table" : "")} aria-label="Show as">
          <ToggleButton value={false}>Timeline</ToggleButton>
          <ToggleButton value={true}>Table</ToggleButton>
        </ToggleButtonGroup>
        <ToggleButtonGroup size="small" exclusive value={rowed} onChange={(_, next) => next && change("rows", next === "node" ? "node" : "")} aria-label="Rows">
          <ToggleButton value="type">By GPU type</ToggleButton>
          <ToggleButton value="node">By node</ToggleButton>
        </ToggleButtonGroup>
        <TextField select size="small" label="Span" value={`${hours}`} onChange={(event) => change("hours", event.target.value)} sx={{ width: 110 }}>
          {SPANS.map((span) => (
            <MenuItem key={span} value={`${span}`}>
              {duration(span * 3_600)}
            </MenuItem>
          ))}
        </TextField>
        <TextField
          size="small"
          value={text}
          onChange={(event) => change("text", event.target.value)}
          placeholder="Run, owner, type, node …"
          slotProps={{ htmlInput: { "aria-label": "Filter" } }}
          sx={{ width: 230 }}
        />
        {!hasPanel && (
          <Button variant="outlined" onClick={() => change("try", "new")}>
            What if …
          </Button>
        )}
      </Box>
      {absent && <NoController says={absent} />}
      {live.error && !live.runs && <Problem error={live.error} />}
      {!live.runs && !live.error && <Skeleton variant="rectangular" height={320} />}
      {live.runs && (
        <>
          {live.runs.length + live.dependents.length > 0 && <Typography sx={{ mb: 3 }}>{`${counted(waiting.length, "run waits", "runs wait")}, ${counted(runs.length - waiting.length, "run has", "runs have")} nodes${dependents.length ? `, ${counted(dependents.length, "run waits", "runs wait")} for others` : ""}.`}</Typography>}
          {!runs.length && !dependents.length && <Nothing any={live.runs.length + live.dependents.length > 0} />}
          {(runs.length > 0 || hasPanel) && (
            <Box sx={{ display: "grid", gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: hasPanel ? "minmax(0, 1fr) 380px" : "minmax(0, 1fr)" }, gap: 4, alignItems: "start" }}>
              <Box sx={{ minWidth: 0 }}>
                {asTable ? (
                  <QueueTable runs={runs} now={now} addressOf={addressOf} />
                ) : (
                  <>
                    <Legend withTrials={trials.length > 0} />
                    <QueueMap runs={drawn} rowed={rowed} from={from} until={until} now={now} selected={selected} select={open} />
                    <Unknown runs={unknown} why={unknownWords(absent !== "")} addressOf={addressOf} />
                  </>
                )}
              </Box>
              {hasPanel && (
                <Box sx={{ order: { xs: -1, lg: 0 }, minWidth: 0 }}>
                  {selected ? (
                    <RunPanel key={selected} id={selected} run={live.runs.find((run) => keyOf(run) === selected)} now={now} draw={setTrials} close={() => void navigate(addressOf(""))} />
                  ) : (
                    <NewWhatIf now={now} draw={setTrials} close={() => change("try", "")} />
                  )}
                </Box>
              )}
            </Box>
          )}
          <Dependents runs={dependents} now={now} />
        </>
      )}
    </>
  );
}

/** Runs that wait for other runs to end. They join the queue after that. */
function Dependents({ runs, now }: { runs: readonly QueueRow[]; now: number }) {
  if (!runs.length) return null;
  return (
    <Box sx={{ mt: 4 }}>
      <Typography variant="h2">Wait for other runs</Typography>
      <Typography color="textSecondary">They have no place in the queue until the other runs have ended.</Typography>
      <Box component="ul" aria-label="Runs that wait for other runs" sx={{ listStyle: "none", p: 0, m: 0 }}>
        {runs.slice(0, 100).map((run) => (
          <Box component="li" key={keyOf(run)} sx={{ py: 1, borderBottom: 1, borderColor: "divider", overflowWrap: "anywhere" }}>
            <Link to={pageOf(run)}>{keyOf(run)}</Link> {run.owner && `of ${run.owner}`} <AfterRuns namespace={run.namespace} after={run.after ?? []} />; {earliestWords(run, now)}
          </Box>
        ))}
      </Box>
      {runs.length > 100 && <Typography>{`${runs.length - 100} more; filter to see them.`}</Typography>}
    </Box>
  );
}

/** Waiting runs that the timeline cannot show, because their starts are not known. */
function Unknown({ runs, why, addressOf }: { runs: readonly QueueRow[]; why: string; addressOf: (key: string) => string }) {
  if (!runs.length) return null;
  return (
    <Box sx={{ mt: 4 }}>
      <Typography variant="h2">Waiting, start not known</Typography>
      <Typography color="textSecondary">{why}</Typography>
      <Box component="ol" sx={{ listStyle: "none", p: 0, m: 0 }}>
        {runs.slice(0, 100).map((run) => (
          <Box component="li" key={keyOf(run)} sx={{ py: 1, borderBottom: 1, borderColor: "divider", overflowWrap: "anywhere" }}>
            {run.position}. <Link to={addressOf(keyOf(run))}>{keyOf(run)}</Link> {run.gpus ? `${run.gpus} ${run.gpuType || "GPUs"}` : ""} {run.owner && `of ${run.owner}`}
          </Box>
        ))}
      </Box>
      {runs.length > 100 && <Typography>{`${runs.length - 100} more; the table lists them.`}</Typography>}
    </Box>
  );
}

function Legend({ withTrials }: { withTrials: boolean }) {
  const marks: [string, object][] = [
    ["runs", { bgcolor: "primary.main" }],
    ["end uncertain", { background: (theme: { palette: { primary: { main: string } } }) => `repeating-linear-gradient(135deg, ${theme.palette.primary.main} 0 1px, transparent 1px 5px)` }],
    ["waits, drawn from its expected start", { border: "1px solid", borderColor: "text.secondary" }],
    ["nodes reserved", { border: "3px solid", borderColor: "text.secondary" }],
    ...(withTrials ? [["what if", { border: "2px dashed", borderColor: "warning.main" }] as [string, object]] : []),
  ];
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", gap: 4, mb: 2, color: "text.secondary" }}>
      {marks.map(([word, sx]) => (
        <Box key={word} sx={{ display: "flex", alignItems: "center", gap: 1.5 }}>
          <Box sx={{ width: 20, height: 12, ...sx }} />
          {word}
        </Box>
      ))}
    </Box>
  );
}

function Nothing({ any }: { any: boolean }) {
  if (any) return <Typography color="textSecondary">No run fits the filter.</Typography>;
  return (
    <Typography>
      No run waits, and none has nodes. <Link to="/start">Start one</Link>: it starts as soon as it fits.
    </Typography>
  );
}

function fits(run: QueueRow, text: string): boolean {
  const shown = [run.name, run.namespace, run.owner, run.gpuType, run.reason, run.nodes, run.state, ...(run.after ?? []).map((other) => other.run)].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => shown.includes(word));
}

function counted(number: number, one: string, many: string): string {
  return `${number} ${number === 1 ? one : many}`;
}
