/** How a plot draws its columns: lines, and areas between two of them. */
import type { Columns } from "../series";

export interface LineStyle {
  /** Index of the colour; "grey" for what is over; null if the column only bounds an area. */
  colour: number | "grey" | null;
  /** Whether it stands faintly behind another line of the same values. */
  isFaint?: boolean;
  /** Whether its last value stands at the right end. */
  hasLast?: boolean;
}

export interface Shape {
  /** One for each column after the first. */
  lines: readonly LineStyle[];
  /** Areas between two columns, of which the second is the lower one, and the opacity of each. */
  areas: readonly (readonly [upper: number, lower: number, opacity: number])[];
  /** The column that tells whether a click was above or below the middle; null if clicks mean nothing. */
  middle: number | null;
}

const BOUND: LineStyle = { colour: null };

/** Minimum, 10th, 50th and 90th percentile, and maximum. */
export const BAND: Shape = {
  lines: [BOUND, BOUND, { colour: 0, hasLast: true }, BOUND, BOUND],
  areas: [[4, 0, 0.15], [3, 1, 0.25]],
  middle: 2,
};

/** Return the shape of a plot in which each column is a line. */
export function linesShape(count: number): Shape {
  return { lines: Array.from({ length: count }, (_, colour) => ({ colour, hasLast: true })), areas: [], middle: null };
}

/** Return the last value of each line that shows it, and the index of the line. */
export function lastValues([, ...columns]: Columns, { lines }: Shape): { line: number; value: number }[] {
  return lines.flatMap(({ hasLast }, line) => {
    const value = hasLast ? columns[line]?.findLast((each) => typeof each === "number") : undefined;
    return typeof value === "number" ? [{ line, value }] : [];
  });
}

/** Return labels so far apart that they do not cover each other: one that is too near to the one below it moves up. */
export function spread<T extends { y: number }>(labels: readonly T[], distance: number): T[] {
  let below = Infinity;
  return [...labels]
    .sort((a, b) => b.y - a.y)
    .map((label) => {
      below = Math.min(label.y, below - distance);
      return { ...label, y: below };
    });
}

/** Return columns as a logarithmic axis can show them, and the number of values of lines that it cannot. Values of 0 or less become gaps; where they bound an area, it reaches to the lowest value shown. Null if no value of a line is above 0. */
export function forLogarithm([places, ...columns]: Columns, { lines }: Shape): { columns: Columns; hidden: number } | null {
  const isShown = (value: number | null | undefined) => typeof value === "number" && value > 0;
  if (!columns.some((column, index) => lines[index]?.colour !== null && column.some(isShown))) return null;
  let [least, hidden] = [Infinity, 0];
  for (const column of columns) for (const value of column) if (isShown(value)) least = Math.min(least, value!);
  const found = columns.map((column, index) => {
    const { colour = null, isFaint = false } = lines[index] ?? {};
    return column.map((value) => {
      if (typeof value !== "number" || value > 0) return value;
      if (colour === null) return least;
      hidden += isFaint ? 0 : 1;
      return null;
    });
  });
  return { columns: [places, ...found], hidden };
}
