import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useDeferredValue, useMemo, useRef } from "react";
import { Link } from "react-router";
import type { Run } from "../api/client";
import { Problem } from "../app/Problem";
import { Beside } from "../sidepanel/Beside";
import { useItemView } from "../sidepanel/useItemView";
import { isFinal } from "../run/data/status";
import { CopyLine } from "../common/CopyLine";
import { Since } from "../words/times/Since";
import { bestCommand, tableCommand } from "./commands";
import { Failures } from "./Failures";
import { conditionsOf, fits } from "./filter";
import { Plots } from "./plots/Plots";
import { ResultControls } from "./ResultControls";
import { TrialPanel } from "./trials/TrialPanel";
import { Trials } from "./trials/Trials";
import { bestFirst, columnsOf, valueWord, type Order, type Trial } from "./trials/trials";
import { useBest } from "./useBest";
import { useResults } from "./useResults";
import { parametersOf, sorted, viewOf } from "./view";

const NONE: Trial[] = [];
const PLOTS_PX = 388;

/** The results of a sweep's members, in plots and as a table. The address holds the view. */
export function SweepResults({ run, succeeded }: { run: Run; succeeded: number }) {
  const [view, change, addressWith] = useItemView(viewOf, parametersOf);
  const addressOf = (member: number | null) => addressWith({ member });
  const results = useResults(run);
  const trials = results.trials ?? NONE;
  const columns = useMemo(() => columnsOf(trials), [trials]);
  // The server knows by the names of the values which one counts, and whether less of it is better.
  const found = useBest(run, Math.min(1, succeeded), view.by);
  const by = view.by || (found.data?.by ?? "");
  const order: Order = view.order || found.data?.order || "lowest";
  const text = useDeferredValue(view.text);
  const conditions = useMemo(() => conditionsOf(text), [text]);
  const sort = view.sort || (by && view.part !== "failed" ? `${order === "highest" ? "-" : ""}:${by}` : "");
  const best = useMemo(() => bestFirst(trials, by, order), [trials, by, order]);
  const shown = useMemo(() => {
    const part = view.part === "best" ? best.slice(0, view.most) : view.part === "failed" ? trials.filter(({ state }) => state === "Failed") : trials;
    const fitting = part.filter((trial) => fits(trial, conditions));
    return sorted(fitting, sort || "Member");
  }, [trials, best, sort, conditions, view.part, view.most]);
  const failed = useMemo(() => trials.reduce((count, { state }) => count + Number(state === "Failed"), 0), [trials]);
  const search = useRef<HTMLInputElement>(null);
  const selected = trials.find(({ index }) => index === view.member);

  if (results.error && !results.trials) return <Problem error={results.error} retry={() => void results.refetch()} />;
  if (!results.trials) return <Skeleton variant="rectangular" height={480} />;
  return (
    <>
      {results.incomplete && (
        <Typography color="warning" role="status">
          Some details are missing: {results.incomplete}.
        </Typography>
      )}
      <Since currentAt={results.dataUpdatedAt} error={results.error} />
      {results.isPartial && <Typography role="status">{`These are the first ${trials.length.toLocaleString("en")} members; the others are being read …`}</Typography>}
      {best[0] && !results.isPartial && (
        <Typography sx={{ overflowWrap: "anywhere" }}>
          {isFinal(run) ? "Best" : "Best so far"}: <strong>{`${by} ${valueWord(best[0].values.get(by))}`}</strong> by <Link to={addressOf(best[0].index)}>{`member ${best[0].index}`}</Link>
          <Box component="span" sx={{ color: "text.secondary" }}>{othersOf(best[0], by)}</Box>
        </Typography>
      )}
      <ResultControls search={search} view={view} change={change} columns={columns} by={by} order={order} counts={{ all: trials.length, best: best.length, failed }} />
      <Beside
        panel={
          view.member !== null && (
            <TrialPanel run={run} index={view.member} trial={selected} place={selected ? best.indexOf(selected) : -1} of={best.length} close={() => change({ member: null })} />
          )
        }
      >
        {view.part === "failed" ? (
          <Failures trials={shown} run={run} />
        ) : results.isPartial ? (
          <Skeleton variant="rectangular" height={PLOTS_PX} />
        ) : (
          <Plots trials={trials} shown={shown} columns={columns} best={best} by={by} order={order} view={view} change={change} />
        )}
        <Trials
          key={`${run.uid} ${view.part === "failed"}`}
          run={run}
          trials={shown}
          total={trials.length}
          columns={columns}
          part={view.part}
          by={by}
          hasFailures={failed > 0}
          sort={sort}
          sortBy={(next) => change({ sort: next })}
          addressOf={addressOf}
          search={() => search.current?.focus()}
        />
        <Box sx={{ mt: 4, display: "grid", gridTemplateColumns: "minmax(0, 1fr)", gap: 2 }}>
          <Typography color="textSecondary">The same in a terminal:</Typography>
          {by && view.part !== "failed" && <CopyLine text={bestCommand(run, view.most, by, order)} />}
          <CopyLine text={view.part === "failed" ? tableCommand(run, "Failed") : `${tableCommand(run)} -o csv > results.csv`} />
        </Box>
      </Beside>
    </>
  );
}

/** Say what else the best member wrote. */
function othersOf({ values }: Trial, by: string): string {
  const others = [...values].filter(([name]) => name !== by).slice(0, 8);
  return others.map(([name, value]) => `, ${name} ${valueWord(value)}`).join("");
}
