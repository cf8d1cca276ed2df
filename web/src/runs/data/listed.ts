/** Runs as the list shows them: their rows, with what is asked for beside the stream of rows. */
import type { Row } from "./rows";
import type { Figures, FiguresByUid } from "../columns/useFigures";
import type { Start } from "../columns/useStarts";

export interface ListedRow extends Row {
  starts: string;
  startsAt: string;
  /** Its last figures; undefined if none are known. */
  figures: Figures | undefined;
}

const UNKNOWN: Start = { starts: "", startsAt: "" };

/** Return runs with their expected starts and their last figures. */
export function listed(runs: readonly Row[], starts: ReadonlyMap<string, Start> | undefined, figures: FiguresByUid): readonly ListedRow[] {
  return runs.map((run) => ({ ...run, ...((run.phase === "Queued" && starts?.get(run.uid)) || UNKNOWN), figures: figures.get(run.uid) }));
}
