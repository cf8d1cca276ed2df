/** What is known of a run in the queue, in words. */
import type { QueueRow } from "./useQueue";

/** Return the name under which a run is known everywhere: `namespace/name`. */
export function keyOf({ namespace, name }: { namespace: string; name: string }): string {
  return `${namespace}/${name}`;
}

/** Return a run's state and expected times in one line. */
export function told(run: QueueRow, now: number): string {
  const size = [run.members === 1 ? "1 member" : `${run.members} members`, run.gpus ? `${run.gpus} ${run.gpuType || "GPUs"}` : ""].filter(Boolean).join(", ");
  const parts = [run.state === "running" ? "Runs" : `Waits at place ${run.position}`, size, run.owner && `of ${run.owner}`];
  return `${parts.filter(Boolean).join(", ")}; ${run.state === "running" ? endWords(run, now) : startWords(run, now)}`;
}

/** Return when a waiting run is expected to start. */
export function startWords({ startsAt }: QueueRow, now: number): string {
  return startsAt ? `expected to start ${ahead(startsAt, now)}` : "its start is not known";
}

/** Return when a waiting run is expected to start, in few words for a list of runs; empty if that is not known. */
export function listedStart({ state, startsAt }: Pick<QueueRow, "state" | "startsAt">, now: number): string {
  if (!startsAt) return "";
  const seconds = (Date.parse(startsAt) - now) / 1_000;
  const words = seconds < 60 ? "now" : `in ${inTwoUnits(seconds)}`;
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
    : "What they wait for has no time limit, or no similar run has ended yet.";
}

/** Return when a run is expected to end. */
export function endWords({ endsAt, endsAtEarliest, expectedSeconds }: QueueRow, now: number): string {
  if (!endsAt) return expectedSeconds ? "its end is not known" : "it has no end";
  const earliest = endsAtEarliest && endsAtEarliest !== endsAt ? `between ${ahead(endsAtEarliest, now)} and ${ahead(endsAt, now)}` : ahead(endsAt, now);
  return `expected to end ${earliest}`;
}

/** Return how far ahead a time is, with the time of day; "now" if it has come. */
export function ahead(time: string, now: number): string {
  const at = Date.parse(time);
  if (at - now < 60_000) return "now";
  const isToday = new Date(at).toDateString() === new Date(now).toDateString();
  return `in ${inTwoUnits((at - now) / 1_000)} (${(isToday ? CLOCK : DAY_AND_CLOCK).format(at)})`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
const DAY_AND_CLOCK = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "numeric", minute: "2-digit" });

/** Return a time of at least a minute in its two largest units: "1 h 59 min". */
export function inTwoUnits(seconds: number): string {
  const minutes = Math.round(seconds / 60);
  const [days, hours] = [Math.floor(minutes / 1_440), Math.floor((minutes % 1_440) / 60)];
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${minutes} min`;
}
