import type { Phase } from "../../api/client";
import { StateMark } from "../../states/StateMark";

const PHASES: Record<string, Phase> = { Waiting: "Queued", Pending: "Starting", NotRun: "Stopped", Running: "Running", Succeeded: "Succeeded", Failed: "Failed" };

/** The state of a member: a shape and a word, as for runs. */
export function TrialState({ state }: { state: string }) {
  return state === "NotRun" ? <StateMark phase="Stopped" word="Not run" /> : <StateMark phase={PHASES[state] ?? "Queued"} />;
}
