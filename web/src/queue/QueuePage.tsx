import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useMemo, useRef, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAddress, withValues } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { Beside } from "../sidepanel/Beside";
import { orderOf, orderText } from "../table/sorting";
import { Since } from "../words/times/Since";
import { useNow } from "../words/times/useNow";
import { EmptyQueue } from "./EmptyQueue";
import { Dependents } from "./lists/Dependents";
import { QueueTable } from "./lists/QueueTable";
import { SORT_KEYS } from "./lists/queueColumns";
import { UnknownStarts } from "./lists/UnknownStarts";
import { YourRuns } from "./lists/YourRuns";
import { MyQuotas } from "./MyQuotas";
import { NoController } from "./NoController";
import { QueueControls } from "./QueueControls";
import { NewWhatIf } from "./QueueWhatIf";
import { RunPanel } from "./RunPanel";
import { QueueMap } from "./timeline/QueueMap";
import { spanned, SPANS, suitableSpan, type Rowed } from "./timeline/timeline";
import { TimelineLegend } from "./timeline/TimelineLegend";
import { isTrial } from "./trials";
import { useAbsentController } from "./useController";
import { useQueue, type QueueRow } from "./useQueue";
import { fits, keyOf, summaryWords, unknownWords } from "./words";

/** The queue into the future: what runs until when, what is reserved, and when each waiting run is expected to start. */
export function QueuePage() {
  const { namespace = "", name = "" } = useParams();
  const selected = name && `${namespace}/${name}`;
  const [parameters, changeAddress] = useAddress();
  const navigate = useNavigate();
  const live = useQueue();
  const absent = useAbsentController();
  const now = useNow(30);
  const search = useRef<HTMLInputElement>(null);
  const text = parameters.get("text") ?? "";
  const rowed: Rowed = parameters.get("rows") === "node" ? "node" : "type";
  const order = useMemo(() => orderOf(parameters.get("sort"), SORT_KEYS), [parameters]);
  const [trials, setTrials] = useState<readonly QueueRow[]>([]);
  const isTrying = parameters.get("try") === "new" && !selected;
  const hasPanel = selected !== "" || isTrying;
  const asTable = parameters.get("as") === "table";
  const runs = useMemo(() => (live.runs ?? []).filter((run) => fits(run, text)), [live.runs, text]);
  const drawn = useMemo(() => (trials.length ? [...runs, ...trials] : runs), [runs, trials]);
  const dependents = useMemo(() => live.dependents.filter((run) => fits(run, text)), [live.dependents, text]);
  const isThere = live.runs !== null;
  // Once chosen it stays until another run is selected, so that the timeline does not jump while one looks at it.
  const suited = useMemo(() => suitableSpan(live.runs ?? [], now, selected), [isThere, selected]);
  const hours = SPANS.find((span) => `${span}` === parameters.get("hours")) ?? suited;
  const [from, until] = spanned(now, hours);
  const change = (key: string, value: string) => changeAddress((newest) => withValues(newest, { [key]: value }));
  const suffix = parameters.size ? `?${parameters}` : "";
  const addressOf = (key: string) => `/queue${key ? `/${key.split("/").map(encodeURIComponent).join("/")}` : ""}${suffix}`;
  const open = (key: string) => {
    if (!isTrial({ namespace: key.split("/")[0] ?? "" })) void navigate(addressOf(key));
  };
  const unknown = runs.filter(({ state, startsAt }) => state === "waiting" && !startsAt).sort((a, b) => a.position - b.position);
  const any = (live.runs?.length ?? 0) + live.dependents.length > 0;

  const panel = selected ? (
    <RunPanel key={selected} id={selected} run={live.runs?.find((run) => keyOf(run) === selected)} now={now} draw={setTrials} addressOf={addressOf} close={() => void navigate(addressOf(""))} />
  ) : (
    isTrying && <NewWhatIf now={now} draw={setTrials} close={() => change("try", "")} />
  );
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Queue
        </Typography>
        <Since currentAt={live.currentAt} error={live.error} />
        <QueueControls asTable={asTable} rowed={rowed} hours={hours} text={text} search={search} change={change} canTry={!hasPanel} />
      </Box>
      {absent && <NoController says={absent} />}
      {live.error && !live.runs && <Problem error={live.error} />}
      {!live.runs && !live.error && <Skeleton variant="rectangular" height={320} />}
      {live.runs && (
        <>
          {!text && <YourRuns runs={live.runs} now={now} addressOf={addressOf} />}
          {!text && !selected && <MyQuotas />}
          {any && <Typography sx={{ mb: 3 }}>{summaryWords(runs, dependents)}</Typography>}
          {!runs.length && !dependents.length && <EmptyQueue any={any} />}
          {(runs.length > 0 || hasPanel) && (
            <Beside panel={panel}>
              {asTable ? (
                <QueueTable runs={runs} now={now} order={order} sort={(next) => change("sort", orderText(next))} addressOf={addressOf} search={() => search.current?.focus()} />
              ) : (
                <>
                  <TimelineLegend withTrials={trials.length > 0} />
                  <QueueMap runs={drawn} rowed={rowed} from={from} until={until} now={now} selected={selected} select={open} />
                  <UnknownStarts runs={unknown} why={unknownWords(absent !== "")} addressOf={addressOf} />
                </>
              )}
            </Beside>
          )}
          <Dependents runs={dependents} now={now} />
        </>
      )}
    </>
  );
}
