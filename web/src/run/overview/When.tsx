import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../../api/client";
import { useExplanation } from "../../cluster/room/useRoom";
import { ahead, unknownWords } from "../../queue/words";
import { sentence } from "../../words/sentence";
import { useNow } from "../../words/times/useNow";
import type { ShownRun } from "../data/findRun";
import { isFinal, phaseOf } from "../data/status";

const REFRESH_MS = 60_000;

/** When a waiting run is expected to start, or a running one to end. */
export function When({ run }: { run: ShownRun }) {
  const phase = phaseOf(run);
  if (run.isRemoved || isFinal(run)) return null;
  if (phase === "Queued") return <Start run={run} />;
  return phase === "Running" ? <End run={run} /> : null;
}

function Start({ run: { namespace, name } }: { run: ShownRun }) {
  const now = useNow(10);
  const { data } = useExplanation(`${namespace}/${name}`);
  if (!data) return null;
  const { expectedAt, controller, place, after } = data;
  const words = expectedAt ? `Expected to start ${ahead(expectedAt, now)}.` : unknownWords(controller !== undefined);
  return (
    <Typography sx={{ mb: 3 }}>
      {controller && `${sentence(controller.says)} `}
      {words}
      {!after && place && ` Place ${place.position} of ${place.of} in the queue${place.overdue ? ", first because it has waited longest" : ""}.`}
    </Typography>
  );
}

function End({ run: { namespace, name, uid } }: { run: ShownRun }) {
  const now = useNow(10);
  const { data } = useQuery({
    queryKey: ["expected", uid],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/expected", { params: { path: { namespace, name } } })),
    refetchInterval: REFRESH_MS,
  });
  if (!data?.endsAt) return null;
  return (
    <Typography sx={{ mb: 3 }}>
      {data.expectedFrom === "limit" ? "Ends at its time limit at the latest," : "Expected to end"} {ahead(data.endsAt, now)}.
    </Typography>
  );
}
