import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf } from "../api/client";
import type { ShownRun } from "../run/data/findRun";
import { PastAttempts } from "../run/PastAttempts";
import { isFinal } from "../run/data/status";
import { useReport } from "../time/useReport";
import { useNow } from "../words/times/useNow";
import { AttemptTimeline } from "./AttemptTimeline";
import { attemptsOf, segmentsOf } from "./segments";

const REFRESH_MS = 10_000;

/** The life of a run: when each attempt waited, started and ran, and what ended it. */
export function AttemptsPanel({ run }: { run: ShownRun }) {
  const now = useNow(isFinal(run) ? 3_600 : 5);
  const { namespace, uid } = run;
  const history = useQuery({
    queryKey: ["attempts", uid],
    queryFn: async () =>
      contentOf(await client.GET("/v1/history/{namespace}/{name}", { params: { path: { namespace, name: uid } } })).attempts,
    // The status has the newest two attempts: history is asked if there were more.
    enabled: !run.isRemoved && (run.status.attempts ?? 0) > 1,
    refetchInterval: isFinal(run) ? false : REFRESH_MS,
    retry: false,
  });
  const times = useReport(run).data?.checkpoints.times;
  const checkpoints = useMemo(() => (times ?? []).map((time) => Date.parse(time)), [times]);
  const recorded = run.isRemoved ? run.pastAttempts : (history.data ?? []);
  const attempts = useMemo(() => attemptsOf(run, recorded), [run, recorded]);
  if (run.spec.array)
    return <Typography color="textSecondary">Each member of a sweep has attempts of its own; its page among the sweeps shows them.</Typography>;
  const missing = (run.status.attempts ?? 0) - attempts.length;
  return (
    <>
      <AttemptTimeline segments={segmentsOf(run, attempts, now)} checkpoints={checkpoints} />
      {attempts.length > 0 ? <PastAttempts run={{ ...run, pastAttempts: attempts }} /> : <Typography color="textSecondary">It has not had nodes yet.</Typography>}
      {missing > 0 && !history.isLoading && (
        <Typography color="textSecondary" sx={{ mt: 2 }}>
          {missing === 1 ? "One earlier attempt is" : `${missing} earlier attempts are`} not in history{history.error ? `: ${history.error.message}` : ""}.
        </Typography>
      )}
    </>
  );
}
