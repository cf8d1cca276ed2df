/** The actions on one or many runs, and what each action loses. */
import { FINAL } from "../states/states";
import { anyGpus, count } from "../words/amounts";
import { faultOf } from "../words/sentence";
import { duration, secondsBetween } from "../words/times/times";
import type { Row } from "../runs/data/rows";

export const VERBS = ["stop", "kill", "restart", "resume", "delete"] as const;
export type Verb = (typeof VERBS)[number];
/** The verbs that have a button; *Stop* also asks whether to kill. */
export const BUTTONS: readonly Verb[] = VERBS.filter((verb) => verb !== "kill");

export const VERB_WORDS: Record<Verb, { ask: string; done: string; doing: string }> = {
  stop: { ask: "Stop", done: "stopped", doing: "Stopping" },
  kill: { ask: "Kill", done: "killed", doing: "Killing" },
  restart: { ask: "Restart", done: "asked to restart", doing: "Restarting" },
  resume: { ask: "Resume", done: "queued again", doing: "Resuming" },
  delete: { ask: "Delete", done: "deleted", doing: "Deleting" },
};

/** Whether the verb would change a run. */
export function applies(verb: Verb, { phase, deleting }: Pick<Row, "phase" | "deleting">): boolean {
  if (deleting) return false;
  return verb === "delete" || FINAL.has(phase) === (verb === "resume");
}

/** Whether the verb ends what the members do, so that the page asks first. */
export function ends(verb: Verb): boolean {
  return verb !== "resume";
}

/** The time of the last checkpoint of runs, by UID: empty if none is known. Runs are missing as long as it was not asked for. */
export type Checkpoints = ReadonlyMap<string, string>;

/** The facts about a run that decide what it loses. */
export type Losing = Pick<Row, "uid" | "namespace" | "name" | "phase" | "startedAt" | "gpus">;

/** Return the runs of which work is lost if they end now. */
export function atWork<T extends Losing>(runs: readonly T[]): T[] {
  return runs.filter(({ phase, startedAt }) => !FINAL.has(phase) && startedAt !== "");
}

/** Return what one run loses if it ends now. */
export function lossOf(run: Losing, checkpoints: Checkpoints, now: number): string {
  const ran = secondsBetween(run.startedAt, now);
  const last = checkpoints.get(run.uid);
  const since = secondsBetween(last, now);
  const words = [
    ...(run.gpus ? [anyGpus(run.gpus)] : []),
    ...(ran === null ? [] : [`started ${duration(ran)} ago`]),
    ...(since !== null ? [`last checkpoint ${duration(since)} ago`] : last === "" ? ["no checkpoint known"] : []),
  ];
  return words.join(", ");
}

export interface Outcome<T = Row> {
  run: T;
  /** Why it was not done; null if it was. */
  error: Error | null;
}

const AT_ONCE = 6;

/** Perform the action on each run, a few at the same time, and report each outcome as it arrives. */
export async function performEach<T>(
  runs: readonly T[],
  act: (run: T) => Promise<void>,
  tell: (outcome: Outcome<T>) => void,
): Promise<void> {
  const waiting = [...runs];
  const work = async () => {
    for (let run = waiting.shift(); run; run = waiting.shift()) {
      const error = await act(run).then(
        () => null,
        (reason: unknown) => (reason instanceof Error ? reason : new Error(String(reason))),
      );
      tell({ run, error });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

/** Return the runs as they are now that a stop has ended and that can be resumed; none after another verb. */
export function resumable(verb: Verb, outcomes: readonly Outcome[], runs: readonly Row[]): Row[] {
  if (verb !== "stop" && verb !== "kill") return [];
  const stopped = new Set(outcomes.filter(({ error }) => !error).map(({ run }) => run.uid));
  return runs.filter((run) => stopped.has(run.uid) && applies("resume", run));
}

/** Return the runs as they are now that could not be changed, and to which the verb still applies. */
export function refused(verb: Verb, outcomes: readonly Outcome[], runs: readonly Row[]): Row[] {
  const kept = new Set(outcomes.filter(({ error }) => error).map(({ run }) => run.uid));
  return runs.filter((run) => kept.has(run.uid) && applies(verb, run));
}

const MOST_NAMED = 5;

/** Return why runs could not be changed, each reason once, with the runs that it kept: "a, b and 38 more". With several runs, "…" stands for the name of each in the reason. */
export function failures(outcomes: readonly Outcome[]): { names: string; why: string }[] {
  const found = new Map<string, { run: Row; error: Error }[]>();
  for (const { run, error } of outcomes) {
    if (!error) continue;
    const why = withoutName(faultOf(error), run.name);
    found.set(why, [...(found.get(why) ?? []), { run, error }]);
  }
  return [...found].map(([why, all]) => {
    const left = all.length - MOST_NAMED;
    const names = all.slice(0, MOST_NAMED).map(({ run }) => run.name);
    return { names: `${names.join(", ")}${left > 0 ? ` and ${count(left)} more` : ""}`, why: all.length > 1 ? why : faultOf(all[0]!.error) };
  });
}

function withoutName(words: string, name: string): string {
  return words.replace(new RegExp(`(?<![\\w-])${name.replace(/[^\w-]/g, "\\$&")}(?![\\w-])`, "g"), "…");
}

/** Return how a verb went with all runs: "2 of 3 runs stopped". */
export function summary(verb: Verb, outcomes: readonly Outcome[]): string {
  const done = outcomes.filter(({ error }) => !error).length;
  const { done: word } = VERB_WORDS[verb];
  const noun = outcomes.length === 1 ? "run" : "runs";
  return done === outcomes.length ? `${done} ${noun} ${word}.` : `${done} of ${outcomes.length} ${noun} ${word}.`;
}
