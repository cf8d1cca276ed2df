/** Finding the run of an address: in the cluster, or in history once it is removed. */
import type { Run, Schemas } from "../../api/client";
import { FINAL } from "../../states/states";

type Recorded = Schemas["RecordedRunView"];

/** A run as its page shows it, from the cluster or from history. */
export interface ShownRun extends Run {
  /** Its name for people. `name` is what addresses need: of a removed run its UID, because a newer run may have its name. */
  title: string;
  /** Whether it is in history alone. */
  isRemoved: boolean;
  /** When it was removed from the cluster; empty if that is not known. */
  removedAt: string;
  /** The attempts that history keeps of a removed run. */
  pastAttempts: readonly Schemas["RecordedAttempt"][];
}

/** What is said of a run whose deletion began before its end. The server keeps the same words. */
export const DELETED_WORDS = "deleted before its end";

const UID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

interface Readers {
  /** Return a run of the cluster by its name or the beginning of it; null if there is none. */
  live: (name: string) => Promise<Run | null>;
  /** Return a run of history by its name or UID; null if there is none. */
  recorded: (name: string) => Promise<Recorded | null>;
}

/** Return the run with this name or UID; null if there is none. A removed run comes before another one whose name only begins like this. */
export async function findRun(name: string, { live, recorded }: Readers): Promise<ShownRun | null> {
  const found = UID.test(name) ? null : await live(name);
  if (found?.name === name) return liveRun(found);
  const record = await recorded(name);
  if (!record) return found && liveRun(found);
  if (record.removedAt) return removedRun(record);
  const present = found ?? (await live(record.name));
  return present?.uid === record.uid ? liveRun(present) : removedRun(record);
}

function liveRun(run: Run): ShownRun {
  return { ...run, title: run.name, isRemoved: false, removedAt: "", pastAttempts: [] };
}

function removedRun({ attempts, ...run }: Recorded): ShownRun {
  const { phase = "Queued" } = run.status;
  const ending = { phase: "Stopped" as const, message: DELETED_WORDS };
  const status = FINAL.has(phase) ? run.status : { ...run.status, ...ending };
  return { ...run, status, name: run.uid, title: run.name, isRemoved: true, pastAttempts: attempts };
}
