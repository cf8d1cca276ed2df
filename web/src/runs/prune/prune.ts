/** The deletion of runs that have ended, by their age, as `kaji prune` does it. */
import { FINAL } from "../../states/states";
import { lineOf } from "../../words/commands";
import { secondsBetween } from "../../words/times/times";
import type { Row } from "../data/rows";

export interface Choice {
  /** Only runs that ended longer ago; empty: all. */
  olderThan: Age;
  /** Delete their checkpoints as well. */
  checkpoints: boolean;
}

export const AGES = { "": "at any time", "1d": "more than a day ago", "7d": "more than 7 days ago", "30d": "more than 30 days ago" } as const;
export type Age = keyof typeof AGES;
const DAY_SECONDS = 86_400;

/** Return the runs that are deleted. One whose end is not known has none that is long ago. */
export function pruned<T extends Pick<Row, "phase" | "finishedAt" | "deleting">>(runs: readonly T[], olderThan: Age, now: number): T[] {
  const least = (parseInt(olderThan) || 0) * DAY_SECONDS;
  return runs.filter(({ phase, finishedAt, deleting }) => {
    const ended = secondsBetween(finishedAt, now);
    return FINAL.has(phase) && !deleting && (!least || (ended !== null && ended > least));
  });
}

/** Return the command that deletes the same runs. */
export function commandOf({ olderThan, checkpoints }: Choice): string {
  return lineOf("prune", { "--older-than": olderThan }, checkpoints ? ["-v"] : []);
}
