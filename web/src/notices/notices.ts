/** Notices of the browser about runs that ended or restarted: what a person wants to be told, and what is to be told now. */
import type { Row } from "../runs/data/rows";
import { FINAL } from "../states/states";
import { sentence } from "../words/sentence";

/** A run whose end the person wants to be told. */
export interface Watched {
  namespace: string;
  name: string;
  /** Whether the person owns it. */
  isMine: boolean;
  /** When the person asked for it, in milliseconds. */
  at: number;
}

/** What a person wants to be told in this browser, and what was told. */
export interface Wanted {
  /** Whether to tell the ends of all of the person's own runs. */
  all: boolean;
  /** Of these runs, ends up to this time are not told (RFC 3339). */
  since: string;
  /** Single runs, by UID. */
  runs: Readonly<Record<string, Watched>>;
  /** The latest ends that were told. */
  told: readonly string[];
}

export interface Notice {
  /** A browser shows one notice of a tag. */
  tag: string;
  title: string;
  body: string;
  /** The address of the page about it. */
  to: string;
}

export const NOTHING_WANTED: Wanted = { all: false, since: "", runs: {}, told: [] };

/** The reason of a run that ended because a person restarts it. */
const ASKED = "RestartedByUser";
const HAVING_NODES: ReadonlySet<string> = new Set(["Starting", "Running", "Restarting"]);
/** Number of ends that are remembered as told. */
const MOST_TOLD = 200;
/** If more runs ended at once, one notice counts them. */
const MOST_NOTICES = 3;
/** A run may be missing in a stream for a moment after its start. */
const SHOWN_AFTER_MS = 60_000;
/** Number of single runs that can be watched: as many UIDs as a stream takes. */
export const MOST_WATCHED = 64;

/** Return the key under which this browser remembers what a person wants to be told. */
export function wantedKey(user: string): string {
  return `kajitori-notices-${user}`;
}

/** Return what a stored text says; nothing is wanted if it makes no sense. */
export function wantedIn(stored: string | null): Wanted {
  try {
    const found: unknown = JSON.parse(stored ?? "null");
    return isWanted(found) ? found : NOTHING_WANTED;
  } catch {
    return NOTHING_WANTED;
  }
}

function isWanted(found: unknown): found is Wanted {
  if (typeof found !== "object" || found === null) return false;
  const { all, since, runs, told } = found as Record<string, unknown>;
  const areWatched = typeof runs === "object" && runs !== null && Object.values(runs).every(isWatched);
  return typeof all === "boolean" && typeof since === "string" && areWatched && Array.isArray(told) && told.every((each) => typeof each === "string");
}

function isWatched(found: unknown): found is Watched {
  if (typeof found !== "object" || found === null) return false;
  const { namespace, name, isMine, at } = found as Record<string, unknown>;
  return typeof namespace === "string" && typeof name === "string" && typeof isMine === "boolean" && typeof at === "number";
}

/** Whether there is anything to watch for. */
export function isWatching({ all, runs }: Wanted): boolean {
  return all || Object.keys(runs).length > 0;
}

/** Return what is wanted with the ends of all own runs, from now on, or without them. */
export function withAll(wanted: Wanted, all: boolean, now: number): Wanted {
  return { ...wanted, all, since: all ? new Date(now).toISOString() : "" };
}

/** Return what is wanted with the end of one more run. */
export function withRun(wanted: Wanted, uid: string, watched: Watched): Wanted {
  return { ...wanted, runs: { ...wanted.runs, [uid]: watched } };
}

/** Return what is wanted without the end of this run. */
export function withoutRun(wanted: Wanted, uid: string): Wanted {
  return { ...wanted, runs: Object.fromEntries(Object.entries(wanted.runs).filter(([known]) => known !== uid)) };
}

/** Return the parameters of the streams that have the runs to watch: the list of one's own runs, and other people's single runs. */
export function streamsFor({ all, runs }: Wanted): string[] {
  const others = Object.entries(runs).filter(([, { isMine }]) => !isMine);
  const hasMine = all || Object.values(runs).some(({ isMine }) => isMine);
  const ofOthers = others.slice(0, MOST_WATCHED).map(([uid]) => `uid=${encodeURIComponent(uid)}`);
  return [...(hasMine ? ["owner=%40me"] : []), ...(ofOthers.length ? [ofOthers.join("&")] : [])];
}

/** Return the notices to show now, and what is wanted after them. `rows` are all runs of the streams. Told twice with the same rows, the second answer has no notices. */
export function noticesOf(wanted: Wanted, user: string, rows: ReadonlyMap<string, Row>, now: number): { notices: Notice[]; wanted: Wanted } {
  const told = new Set(wanted.told);
  const isNew = ({ finishedAt }: Row) => wanted.all && Date.parse(finishedAt) > Date.parse(wanted.since);
  const ended = [...rows.values()].filter((run) => hasEnded(run) && !told.has(markOf(run)) && (run.uid in wanted.runs || (run.owner === user && isNew(run))));
  const gone = Object.entries(wanted.runs).filter(([uid, { at }]) => !rows.has(uid) && now - at > SHOWN_AFTER_MS);
  if (!ended.length && !gone.length) return { notices: [], wanted };
  ended.sort((a, b) => Date.parse(a.finishedAt) - Date.parse(b.finishedAt));
  const notices = [...(ended.length > MOST_NOTICES ? [ofMany(ended)] : ended.map(ofOne)), ...gone.map(([uid, run]) => ofGone(uid, run))];
  const done = new Set([...ended.map(({ uid }) => uid), ...gone.map(([uid]) => uid)]);
  const runs = Object.fromEntries(Object.entries(wanted.runs).filter(([uid]) => !done.has(uid)));
  return { notices, wanted: remembered({ ...wanted, runs }, ended) };
}

/** Return the notices about runs that restarted between two states of the streams' runs. What restarted while no page was open is not told. */
export function restartsBetween(wanted: Wanted, user: string, before: ReadonlyMap<string, Row>, rows: ReadonlyMap<string, Row>): Notice[] {
  const found = [...rows.values()].flatMap((run) => {
    const known = before.get(run.uid);
    const isWanted = run.uid in wanted.runs || (wanted.all && run.owner === user);
    const why = known && isWanted ? whyRestarted(known, run) : "";
    return why ? [{ run, why }] : [];
  });
  if (found.length <= MOST_NOTICES) return found.map(({ run, why }) => ofRestart(run, why));
  const names = found.slice(0, MOST_NOTICES).map(({ run }) => run.name);
  return [{ tag: "restarts", title: `${found.length} runs restarted`, body: `${names.join(", ")} …`, to: "/runs" }];
}

/** Return why a run restarted since it was known, in words; empty if it did not. The stream may leave out the phases in between. */
function whyRestarted(known: Row, run: Row): string {
  const isAsked = run.reason === ASKED && known.reason !== ASKED;
  // A run that a person restarts is queued anew; one that has ended is resumed.
  const isQueuedAnew = HAVING_NODES.has(known.phase) && known.queuedAt !== run.queuedAt && !FINAL.has(run.phase);
  if (isAsked || isQueuedAnew) return "Somebody asked for it.";
  const restarts = run.restarts - known.restarts;
  const interruptions = (run.interruptions ?? 0) - (known.interruptions ?? 0);
  if (FINAL.has(run.phase) || (restarts <= 0 && interruptions <= 0)) return "";
  const cause = run.phase === "Restarting" ? ` ${sentence(run.message || run.reason)}` : "";
  return (restarts > 0 ? `Restart ${run.restarts} that the program caused.` : `Interruption ${run.interruptions}, without a fault of the program.`) + cause;
}

/** Later restarts of a run replace the notice about earlier ones. */
function ofRestart({ uid, name, namespace }: Row, why: string): Notice {
  return { tag: `${uid} restart`, title: `${name} restarts`, body: `${why}\nTeam ${namespace}`, to: addressOf(namespace, name, uid) };
}

/** Whether a run has ended for good: one that was asked to restart is queued again. */
function hasEnded({ phase, finishedAt, reason }: Row): boolean {
  return FINAL.has(phase) && finishedAt !== "" && reason !== ASKED;
}

/** Return what is wanted after these ends were told. The oldest marks are dropped; the runs that ended before them are not told any more. */
function remembered(wanted: Wanted, ended: readonly Row[]): Wanted {
  const told = [...wanted.told, ...ended.map(markOf)];
  const dropped = told.splice(0, Math.max(0, told.length - MOST_TOLD)).map((mark) => mark.split(" ")[1] ?? "");
  const since = dropped.reduce((latest, time) => (Date.parse(time) > Date.parse(latest) ? time : latest), wanted.since);
  return { ...wanted, told, since };
}

/** A run that was resumed ends again, at another time. */
function markOf({ uid, finishedAt }: Row): string {
  return `${uid} ${finishedAt}`;
}

const ENDED_WORDS: Readonly<Record<string, string>> = { Succeeded: "succeeded", Failed: "failed", Stopped: "was stopped" };

function ofOne(run: Row): Notice {
  const body = [run.phase === "Succeeded" ? "" : sentence(run.message || run.reason), `Team ${run.namespace}`].filter(Boolean).join("\n");
  return { tag: markOf(run), title: `${run.name} ${ENDED_WORDS[run.phase]}`, body, to: addressOf(run.namespace, run.name, run.uid) };
}

function ofMany(runs: readonly Row[]): Notice {
  const counts = Object.entries(ENDED_WORDS).map(([phase, words]) => ({ words, count: runs.filter((run) => run.phase === phase).length }));
  const failed = runs.filter(({ phase }) => phase === "Failed").map(({ name }) => name);
  const named = failed.length ? `\nFailed: ${failed.slice(0, MOST_NOTICES).join(", ")}${failed.length > MOST_NOTICES ? " …" : ""}` : "";
  const body = counts.filter(({ count }) => count).map(({ words, count }) => `${count} ${count > 1 ? words.replace("was", "were") : words}`).join(", ");
  return { tag: runs.map(markOf).at(-1) ?? "", title: `${runs.length} runs ended`, body: body + named, to: "/runs" };
}

function ofGone(uid: string, { namespace, name }: Watched): Notice {
  return { tag: `${uid} gone`, title: `${name} was removed`, body: `It was deleted, or removed after its end.\nTeam ${namespace}`, to: addressOf(namespace, uid, uid) };
}

function addressOf(namespace: string, name: string, uid: string): string {
  const path = `/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return name === uid ? path : `${path}?uid=${encodeURIComponent(uid)}`;
}
