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

/** Rows that were made before, by the run's own row. A row that did not change stays the same object, so that it is not drawn again. */
const MADE = new WeakMap<Row, ListedRow>();

/** Return runs with their expected starts and their last figures. */
export function listed(runs: readonly Row[], starts: ReadonlyMap<string, Start> | undefined, figures: FiguresByUid): readonly ListedRow[] {
  return runs.map((run) => {
    const start = (run.phase === "Queued" && starts?.get(run.uid)) || UNKNOWN;
    const own = figures.get(run.uid);
    const before = MADE.get(run);
    if (before?.starts === start.starts && before.startsAt === start.startsAt && before.figures === own) return before;
    const row = { ...run, ...start, figures: own };
    MADE.set(run, row);
    return row;
  });
}
