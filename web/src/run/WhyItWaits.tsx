import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import { Link } from "react-router";
import type { Schemas } from "../api/client";
import { Problem } from "../app/Problem";
import { useExplanation } from "../cluster/room/useRoom";
import { WhatHasToHappen } from "../queue/WhyWaiting";
import { ahead, keyOf } from "../queue/words";
import { CopyLine } from "../common/CopyLine";
import { Faint, Part } from "../common/Part";
import { useNow } from "../words/times/useNow";
import { pageOf } from "./overview/AfterRuns";
import type { ShownRun } from "./data/findRun";

/** What has to happen before a waiting run starts. Why it waits, and its expected start, stand in the head of its page. */
export function WhyItWaits({ run }: { run: ShownRun }) {
  const now = useNow(10);
  const id = keyOf(run);
  const found = useExplanation(id);
  if (found.error && !found.data) return <Problem error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Skeleton variant="rectangular" height={320} />;
  const { after } = found.data;
  return (
    <Box sx={{ maxWidth: 960, overflowWrap: "anywhere" }}>
      {after ? <OtherRuns namespace={run.namespace} after={after} now={now} /> : <WhatHasToHappen found={found.data} id={id} now={now} addressOf={addressOf} />}
      {!after && <Link to={`/queue/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`}>On the timeline of the queue, and what if it asked for something else</Link>}
      <Box sx={{ mt: 3 }}>
        <CopyLine text={`kaji explain -N ${run.namespace} ${run.name}`} />
      </Box>
    </Box>
  );
}

const HAPPENS = { succeeded: "succeeds", healthy: "is healthy", ended: "ends" };

/** The runs for which another one waits before it takes its place in the queue. */
function OtherRuns({ namespace, after, now }: { namespace: string; after: readonly Schemas["AfterView"][]; now: number }) {
  return (
    <Part title="What has to happen">
      {after.map(({ run, condition, phase, met, endsAt }) => (
        <li key={run}>
          <Link to={pageOf({ namespace, name: run })}>{run}</Link> {HAPPENS[condition]}
          <Faint>{met ? "this has happened" : [phase ? `now ${phase}` : "there is no such run now", endsAt && `expected to end ${ahead(endsAt, now)}`].filter(Boolean).join(", ")}</Faint>
        </li>
      ))}
    </Part>
  );
}

/** Return the address of the page of another run (`namespace/name`). */
function addressOf(key: string): string {
  const [namespace = "", name = ""] = key.split("/");
  return pageOf({ namespace, name });
}
