/** Tracebacks in a log, folded to the message and the last frame. */
import { plain } from "./ansi";
import type { Row } from "../feed/rows";

export interface Fold {
  /** Key of its first row. */
  key: number;
  rows: readonly Row[];
  /** The error: "ValueError: nan". */
  message: string;
  /** Its last frame: `File "train.py", line 12, in step`. */
  frame: string;
}

/** The content of a line of the page. */
export type Item = { row: Row; fold?: undefined; head?: Fold } | { row: Row; fold: Fold };

const HEADER = "Traceback (most recent call last)";
const PREFIX = /^\[[\w ]+\]:? ?/;
const FRAME = /^\s+File ".+", line \d+/;
const MOST_LINES = 2_000;

/** Return the items for these rows. Tracebacks are folded unless they are in `open`, by the key of their first row. */
export function folded(rows: readonly Row[], open: ReadonlySet<number>): Item[] {
  const items: Item[] = [];
  for (let place = 0; place < rows.length; ) {
    const row = rows[place] as Row;
    const fold = row.text.includes(HEADER) ? foldAt(rows, place) : null;
    if (fold && open.has(row.key)) {
      fold.rows.forEach((each, index) => items.push(index ? { row: each } : { row: each, head: fold }));
    } else items.push(fold ? { row, fold } : { row });
    place += fold ? fold.rows.length : 1;
  }
  return items;
}

/** Return the traceback that begins at a row; null if it does not end among these rows. */
function foldAt(rows: readonly Row[], start: number): Fold | null {
  const first = rows[start] as Row;
  let frame = "";
  for (let place = start + 1; place < Math.min(rows.length, start + MOST_LINES); place++) {
    const row = rows[place] as Row;
    if (row.rank !== first.rank || row.attempt !== first.attempt) return null;
    const text = plain(row.text).replace(PREFIX, "");
    if (FRAME.test(text)) frame = text.trim();
    else if (text && !/^\s/.test(text))
      return frame ? { key: first.key, rows: rows.slice(start, place + 1), message: text, frame } : null;
  }
  return null;
}
