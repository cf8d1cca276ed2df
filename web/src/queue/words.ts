/** Texts about a run in the queue. */
import { anyGpus, count, gpusWords } from "../words/amounts";
import { HOUR_AND_MINUTE } from "../words/times/times";
import type { QueueRow } from "./useQueue";

/** Return the name under which a run is known everywhere: `namespace/name`. */
export function keyOf({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}

/** Whether a run has all words of a text in its name, team, owner, GPU type, reason, nodes, state or the runs that it waits for. */
export function fits(run: QueueRow, text: string): boolean {
  const shown = [run.name, run.namespace, run.owner, run.gpuType, run.reason, run.nodes, run.state, ...(run.after ?? []).map((other) => other.run)].join(" ").toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => shown.includes(word));
}

/** Say how many runs wait, run, and wait for others. */
export function summaryWords(runs: readonly QueueRow[], dependents: readonly QueueRow[]): string {
  const waiting = runs.filter(({ state }) => state === "waiting").length;
  const parts = [counted(waiting, "run waits", "runs wait"), counted(runs.length - waiting, "run has", "runs have") + " nodes"];
  if (dependents.length) parts.push(`${counted(dependents.length, "run waits", "runs wait")} for others`);
  return `${parts.join(", ")}.`;
}

function counted(number: number, one: string, many: string): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

/** Return a run's state and expected times in one line. */
export function told(run: QueueRow, now: number): string {
  const parts = [run.state === "running" ? "Runs" : `Waits at place ${run.position}`, sizeWords(run), run.owner && `of ${run.owner}`];
  return `${parts.filter(Boolean).join(", ")}; ${run.state === "running" ? endWords(run, now) : startWords(run, now)}`;
}

/** Return how large a run is: "4 members, 32 h100". */
export function sizeWords({ members, gpus, gpuType }: QueueRow): string {
  return [members === 1 ? "1 member" : `${count(members)} members`, gpuType ? gpusWords(gpus, gpuType) : anyGpus(gpus)].filter(Boolean).join(", ");
}

/** Return when a waiting run is expected to start. */
export function startWords({ startsAt }: QueueRow, now: number): string {
  return startsAt ? `expected to start ${ahead(startsAt, now)}` : "its start is not known";
}

/** Return when a waiting run is expected to start, in few words for a list of runs; empty if that is not known. */
export function listedStart({ state, startsAt }: Pick<QueueRow, "state" | "startsAt">, now: number): string {
  if (!startsAt) return "";
  const left = until(startsAt, now);
  const words = left === NOW ? NOW : `in ${left}`;
  return state === "dependent" ? `${words} at the earliest` : `expected ${words}`;
}

/** Return when a run that waits for others can start at the earliest. */
export function earliestWords({ startsAt }: QueueRow, now: number): string {
  return startsAt ? `they are expected to end ${ahead(startsAt, now)}` : "it is not known when they end";
}

/** Return what has to happen before a waiting run starts, if no steps are named. `isKnown`: there is room for it. */
export function needWords(isKnown: boolean, isControllerAbsent: boolean): string {
  if (!isKnown) return "Nothing that would be enough is known.";
  return isControllerAbsent ? "A controller has to be at work again. There is room for the run." : "Nothing: it starts in the next cycle.";
}

/** Return why the starts of waiting runs are not known. */
export function unknownWords(isControllerAbsent: boolean): string {
  return isControllerAbsent
    ? "No start is known while no controller is at work."
    : "No start is known: what holds the nodes has no time limit and no similar run has ended yet, too many runs wait before it, or too many nodes take no work.";
}

/** Return when a run is expected to end. */
export function endWords({ endsAt, endsAtEarliest, expectedSeconds }: QueueRow, now: number): string {
  if (!endsAt) return expectedSeconds ? "its end is not known" : "it has no end";
  const hasTwo = endsAtEarliest && endsAtEarliest !== endsAt;
  return `expected to end ${hasTwo ? `${ahead(endsAtEarliest, now)} at the earliest, ${ahead(endsAt, now)} at the latest` : ahead(endsAt, now)}`;
}

/** The word for a time that has come. */
export const NOW = "now";

/** Return how far ahead a time is, with the time of day; "now" if it has come. */
export function ahead(time: string, now: number): string {
  const at = Date.parse(time);
  const left = until(time, now);
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return left === NOW ? NOW : `in ${left} (${(isToday ? HOUR_AND_MINUTE : DAY_AND_CLOCK).format(at)})`;
}

/** Return the time until another one; "now" if it has come. */
export function until(time: string, now: number): string {
  const milliseconds = Date.parse(time) - now;
  return milliseconds < 60_000 ? NOW : inTwoUnits(milliseconds / 1_000);
}

const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });

/** Return a time of at least a minute in its two largest units: "1 h 59 min". */
export function inTwoUnits(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  const [days, hours] = [Math.floor(minutes / 1_440), Math.floor((minutes % 1_440) / 60)];
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${minutes} min`;
}
