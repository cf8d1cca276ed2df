/** The lines of a log that a page holds: the newest ones, each with a number that does not change. */

export const MOST_LINES = 20_000;

export interface LogLines {
  /** Number of the first line that is held, from 0. */
  first: number;
  lines: readonly string[];
}

export const NO_LINES: LogLines = { first: 0, lines: [] };

/** Return the lines with further ones behind them; of too many the oldest are dropped. */
export function appended(held: LogLines, more: readonly string[]): LogLines {
  const all = [...held.lines, ...more.map(lastDrawing)];
  const dropped = Math.max(0, all.length - MOST_LINES);
  return { first: held.first + dropped, lines: dropped ? all.slice(dropped) : all };
}

/** Return what a terminal shows in the end of a line that a progress bar drew several times. */
export function lastDrawing(line: string): string {
  const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}
