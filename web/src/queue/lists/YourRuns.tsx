import { useQuery } from "@tanstack/react-query";
import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useMemo } from "react";
import { Link } from "react-router";
import { whoAmI } from "../../api/signIn";
import type { QueueRow } from "../useQueue";
import { keyOf, sizeWords, startWords } from "../words";
import { RunList } from "./RunList";
import { NodeNames } from "../../cluster/NodeNames";

const MOST = 3;

interface Properties {
  runs: readonly QueueRow[];
  now: number;
  addressOf: (key: string) => string;
}

/** When the person's own waiting runs are expected to start: what most people come for. */
export function YourRuns({ runs, now, addressOf }: Properties) {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const name = who.data?.user;
  const waiting = useMemo(() => runs.filter(({ state }) => state === "waiting"), [runs]);
  const yours = useMemo(() => (name ? waiting.filter(({ owner }) => owner === name).sort((a, b) => a.position - b.position) : []), [waiting, name]);
  if (!yours.length) return null;
  return (
    <Box component="section" aria-label="Your waiting runs" sx={{ mb: 4 }}>
      <Typography variant="h2">{yours.length === 1 ? "Your waiting run" : "Your waiting runs"}</Typography>
      <RunList label="Your waiting runs" runs={yours} most={MOST} more={`type ${name} into the filter to see all`}>
        {(run) => (
          <>
            <Link to={addressOf(keyOf(run))}>{keyOf(run)}</Link>, {sizeWords(run)}: <strong>{startWords(run, now)}</strong>, place {run.position} of {waiting.length}
            {run.nodes && <>, reserved: <NodeNames list={run.nodes} /></>}
          </>
        )}
      </RunList>
    </Box>
  );
}
