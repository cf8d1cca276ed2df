import Box from "@mui/material/Box";
import type { ReactNode } from "react";
import { membersOn } from "../../cluster/names";
import type { Run } from "../../api/client";
import { LabelChips } from "../../labels/LabelChips";
import { pairsOf } from "../../labels/labels";
import { useMayChange } from "../../verbs/useMayChange";
import { Age } from "../../words/times/Age";
import { AfterRuns } from "./AfterRuns";
import { gpuWords, isFinal, membersOf } from "../data/status";

/** Number of letters from which a value takes a line of its own on a phone. */
const LONG = 13;

type Fact = [name: string, value: ReactNode];

/** Facts about a run and its nodes, as pairs of name and value. */
export function Facts({ run }: { run: Run & { isRemoved?: boolean } }) {
  const mayLabel = useMayChange()(run.namespace) && !run.isRemoved;
  const { status, spec } = run;
  const members = membersOf(run);
  const facts: Fact[] = [
    ["Owner", run.owner],
    ["Team", run.namespace],
    ["Starts", spec.after?.length ? <AfterRuns key="after" namespace={run.namespace} after={spec.after} /> : ""],
    ["Image", spec.image],
    ["Members", members.total ? (isFinal(run) ? members.total.toLocaleString() : `${members.running.toLocaleString()} of ${members.total.toLocaleString()} run`) : ""],
    ["Health", status.health && <HealthWords key="health" run={run} />],
    ["GPUs", gpuWords(run)],
    ["Nodes", membersOn(run.nodes ?? "")],
    ["Attempt", (status.attempts ?? 0) > 1 ? status.attempts : ""],
    ["Restarts", status.restarts || ""],
    ["Exit code", status.exitCode ?? ""],
    ["Labels", (mayLabel || pairsOf(run.labels).length > 0) && <LabelChips key="labels" run={run} mayChange={mayLabel} />],
  ];
  const times: Fact[] = [
    ["Created", <Age key="created" time={run.createdAt} />],
    ["Started", status.startedAt && <Age key="started" time={status.startedAt} />],
    ["Ended", status.reason !== "NotStarted" && status.finishedAt && <Age key="ended" time={status.finishedAt} />],
  ];
  return (
    // Each fact is as wide as its value, so that they need few lines.
    <Box sx={{ display: { xs: "grid", sm: "flex" }, flexWrap: "wrap", gridTemplateColumns: "1fr 1fr", columnGap: { xs: 3, sm: 5 }, rowGap: { xs: 1, sm: 2 } }}>
      <Box component="dl" sx={{ display: "contents" }}>
        {facts.map((fact) => (
          <FactBox key={fact[0]} fact={fact} />
        ))}
      </Box>
      {/* Times stay together, so that none of them stands alone in a second line. */}
      <Box component="dl" sx={{ display: { xs: "contents", sm: "flex" }, columnGap: 5, m: 0 }}>
        {times.map((fact) => (
          <FactBox key={fact[0]} fact={fact} />
        ))}
      </Box>
    </Box>
  );
}

/** The health of the members: "Healthy", "3 of 4 healthy" at its start, or since when it is unhealthy. */
function HealthWords({ run }: { run: Run }) {
  const { health, members } = run.status;
  const { healthy = 0, unhealthy = 0, status, since } = health ?? {};
  const total = members?.total ?? 1;
  const counted = (count: number) => `${count.toLocaleString()} of ${total.toLocaleString()}`;
  if (status === "healthy") return "Healthy";
  if (status === "starting") return total > 1 ? `${counted(healthy)} healthy` : "Starting";
  return (
    <>
      {total > 1 ? `${counted(unhealthy)} unhealthy` : "Unhealthy"} for <Age time={since} lasting />
    </>
  );
}

function FactBox({ fact: [name, value] }: { fact: Fact }) {
  if (!value) return null;
  return (
    <Box sx={{ minWidth: { xs: 0, sm: 48 }, maxWidth: { sm: 440 }, gridColumn: typeof value === "string" && value.length > LONG ? "1 / -1" : undefined, display: { xs: "flex", sm: "block" }, columnGap: 2, alignItems: "baseline" }}>
      <Box component="dt" sx={{ color: "text.secondary", fontSize: 12.5 }}>
        {name}
      </Box>
      <Box component="dd" sx={{ m: 0, overflowWrap: "anywhere" }}>
        {typeof value === "string" ? <bdi>{value}</bdi> : value}
      </Box>
    </Box>
  );
}
