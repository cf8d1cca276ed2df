import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import type { ReactNode } from "react";
import { Link } from "react-router";
import { Problem } from "../app/Problem";
import { phaseOf } from "../run/data/status";
import { useRun } from "../run/data/useRun";
import { RunTitle } from "../runs/RunTitle";
import { stateOf } from "../states/states";
import { sentence } from "../words/sentence";
import { Since } from "../words/times/Since";
import { useTitle } from "../common/useTitle";
import { ProgressBar, progressWords } from "./Progress";
import { SweepResults } from "./SweepResults";

interface Properties {
  namespace: string;
  name: string;
  /** Whether it stands in a panel, which has its name and state. */
  isPart?: boolean;
  /** More to do, in its head. */
  children?: ReactNode;
}

/** One sweep: how far it is, and what its members found. */
export function SweepPage({ namespace, name, isPart = false, children }: Properties) {
  const run = useRun(namespace, name);
  useTitle(run.data ? `${run.data.title}: ${stateOf(phaseOf(run.data), "").word}` : name);
  if (run.error && !run.data) return <Problem error={run.error} retry={() => void run.refetch()} />;
  if (!run.data) return <Skeleton variant="rectangular" height={480} />;
  const view = run.data;
  const { total = 0, succeeded = 0, failed = 0, running = 0, pending = 0 } = view.status.members ?? {};
  const counts = { total, succeeded, failed, running, pending };
  const page = `/runs/${encodeURIComponent(view.namespace)}/${encodeURIComponent(view.name)}`;
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 4, mb: 3 }}>
        {!isPart && <RunTitle title={view.title} phase={phaseOf(view)} finding="" />}
        <Typography color="textSecondary" sx={{ overflowWrap: "anywhere", minWidth: 0 }}>
          {[view.owner && `of ${view.owner}`, `in ${view.namespace}`].filter(Boolean).join(" ")}
        </Typography>
        {isPart && <Box sx={{ flex: 1 }} />}
        <Since currentAt={run.dataUpdatedAt} error={run.error} />
        <Link to={page}>Log, events and actions</Link>
        {children}
      </Box>
      {view.spec.array ? (
        <>
          <Box sx={{ mb: 4 }}>
            <Typography sx={{ mb: 1 }}>{progressWords(counts)}</Typography>
            <ProgressBar counts={counts} />
            {view.status.message && <Typography sx={{ mt: 2, overflowWrap: "anywhere" }}>{sentence(view.status.message)}</Typography>}
          </Box>
          <SweepResults run={view} succeeded={succeeded} />
        </>
      ) : (
        <Typography>
          This run is not a sweep. <Link to={page}>Show the run</Link>
        </Typography>
      )}
    </>
  );
}
