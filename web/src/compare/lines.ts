/** One figure of several runs as the lines of a plot, over the time since each run's start or over steps. */
import type { Schemas } from "../api/client";
import { aligned, byStep, hiddenWords, meansOf, stepAt, STEP, type CurveView, type Smoothing, type Steps } from "../figures/curves";
import { forLogarithm, type LineStyle, type Shape } from "../figures/plot/shape";
import { seconds, type Columns } from "../figures/series";
import { cell } from "../words/csv";
import { namesOf, type ComparedRun, type Comparison } from "./view";

export type ComparedFigure = Schemas["ComparedFigure"];
type Point = Schemas["ComparedPoint"];
type Placed = readonly [place: number, point: Point];

const GAP = 1.5;

/** Of each run, what its lines need beside their points. */
export interface RunScale {
  intervalSeconds: number;
  /** The time from which its lines are drawn, in seconds since 1970. */
  start: number;
  steps: Steps | null;
}

/** Return the scales of all runs. A run starts when all of its members ran, or, if it was measured before, with its first point. */
export function scalesOf({ runs, figures }: Comparison): RunScale[] {
  return runs.map(({ startedAt, createdAt, intervalSeconds }, index) => {
    const points = (figures ?? []).map(({ lines }) => pointsOf(lines, index));
    const firsts = points.flatMap((each) => (each[0] ? [seconds(each[0].at)] : []));
    const own = (figures ?? []).findIndex(({ name }) => name === STEP);
    return { intervalSeconds, start: Math.min(seconds(startedAt || createdAt), ...firsts), steps: own < 0 ? null : stepsIn(points[own] ?? []) };
  });
}

function stepsIn(points: readonly Point[]): Steps | null {
  const found = new Map<number, [number, number][]>();
  for (const { at, attempt, p50 } of points) found.set(attempt, [...(found.get(attempt) ?? []), [seconds(at), p50]]);
  return found.size ? found : null;
}

function pointsOf(lines: ComparedFigure["lines"], run: number): readonly Point[] {
  return lines.find((line) => line.run === run)?.points ?? [];
}

export interface Lines {
  columns: Columns;
  shape: Shape;
  isLog: boolean;
  /** What the plot does not show, in words. */
  notes: string[];
  /** Of each run, the newest attempt's points by their place, in order. */
  placed: readonly (readonly Placed[])[];
}

/** Return the lines of a figure, in the colour of their run. By step, earlier attempts are faint lines of their own. */
export function linesOf({ lines }: ComparedFigure, scales: readonly RunScale[], { x, y, smooth }: CurveView): Lines {
  const runs = scales.map((scale, run) => attemptsOf(pointsOf(lines, run), scale, x));
  const drawn = runs.flatMap((attempts, run) => attempts.map((points, index) => drawnLine(points, run, index === attempts.length - 1, smooth, x === "time" ? GAP * (scales[run]?.intervalSeconds ?? 0) : Infinity)));
  const columns = aligned(drawn.map(({ rows }) => rows));
  const shape: Shape = { lines: drawn.flatMap(({ styles }) => styles), areas: [], middle: null };
  const placed = runs.map((attempts) => attempts.at(-1) ?? []);
  if (y === "linear") return { columns, shape, isLog: false, notes: [], placed };
  const shown = forLogarithm(columns, shape);
  if (!shown) return { columns, shape, isLog: false, notes: drawn.length ? ["No value is above 0, so the axis is linear."] : [], placed };
  return { columns: shown.columns, shape, isLog: true, notes: hiddenWords(shown.hidden), placed };
}

/** Return a run's points with their places: together over time, by attempt over steps. A run without steps has none there. */
function attemptsOf(points: readonly Point[], { start, steps }: RunScale, x: CurveView["x"]): Placed[][] {
  if (x === "step") return steps ? [...byStep(points, steps).values()] : [];
  return points.length ? [points.map((point) => [seconds(point.at) - start, point])] : [];
}

/** Return a line: its points, and, before them and faint, the measured ones if it is smoothed. */
function drawnLine(points: readonly Placed[], run: number, isNewest: boolean, smooth: Smoothing, gap: number): { rows: [number, (number | null)[]][]; styles: LineStyle[] } {
  const means = meansOf(points.map(([, point]) => point), smooth);
  const isDouble = smooth !== "" && isNewest;
  const rows: [number, (number | null)[]][] = [];
  let before: number | null = null;
  for (const [place, point] of points) {
    if (before !== null && place - before > gap) rows.push([before + 1, isDouble ? [null, null] : [null]]);
    const mean = means.get(point) ?? point.p50;
    rows.push([place, isDouble ? [point.p50, mean] : [mean]]);
    before = place;
  }
  const measured: LineStyle = { colour: run, isFaint: true };
  return { rows, styles: [...(isDouble ? [measured] : []), isNewest ? { colour: run, hasLast: true } : measured] };
}

/** Return the value of a run at a place: that of its newest point there or before; null before its first and after its last one. */
export function valueAt(placed: readonly Placed[], place: number | null): number | null {
  const last = placed.at(-1);
  if (!last) return null;
  if (place === null) return last[1].p50;
  if (place > last[0]) return null;
  return placed.findLast(([at]) => at <= place)?.[1].p50 ?? null;
}

/** Return the first and the last place of all lines; null without any. */
export function placesOf(figures: readonly Lines[]): [number, number] | null {
  const ends = figures.flatMap(({ columns: [places] }) => [places[0], places.at(-1)]).filter((place) => place !== undefined);
  return ends.length ? [Math.min(...ends), Math.max(...ends)] : null;
}

/** Return the curves as a table for other programs: what `kaji compare -o csv` prints, and what the plots make of it. */
export function curvesCsv(comparison: Comparison, scales: readonly RunScale[], { x, smooth }: CurveView): string {
  const rows = (comparison.figures ?? []).flatMap(({ name, unit, lines }) =>
    lines.flatMap(({ run, points }) => {
      const [{ namespace, name: own } = { namespace: "", name: "" }, scale] = [comparison.runs[run], scales[run]];
      const means = smooth ? meansOf(points, smooth) : null;
      return points.map((point) => {
        const at = seconds(point.at);
        const step = x === "step" ? [scale?.steps ? (stepAt(scale.steps, point.attempt, at) ?? "") : ""] : [];
        return [cell(`${namespace}/${own}`), cell(name), unit, point.at, point.attempt, point.p50, at - (scale?.start ?? at), ...step, ...(means ? [means.get(point) ?? ""] : [])].join(",");
      });
    }),
  );
  return [["run,name,unit,at,attempt,p50,seconds", ...(x === "step" ? ["step"] : []), ...(smooth ? ["smoothed"] : [])].join(","), ...rows, ""].join("\n");
}

/** Return the table of values, those that are shown, as CSV. */
export function rowsCsv(runs: readonly ComparedRun[], rows: Comparison["rows"]): string {
  return [["part", "name", ...namesOf(runs)], ...rows.map(({ part, name, values }) => [part, name, ...values])].map((row) => row.map(cell).join(",")).join("\n") + "\n";
}
