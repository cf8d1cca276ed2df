/** Curves of a training as a person wants to read them: over time or steps, smoothed, on a linear or a logarithmic axis. */
import { bandColumns, bandOf, gapped, seconds, type BandPoint, type BandSeries, type Columns } from "./series";
import { BAND, forLogarithm, type LineStyle, type Shape } from "./plot/shape";

export const SMOOTHINGS = ["", "mean-5", "mean-15", "exp-0.6", "exp-0.9"] as const;
export type Smoothing = (typeof SMOOTHINGS)[number];

/** How curves are drawn, as the address has it. */
export interface CurveView {
  x: "time" | "step";
  y: "linear" | "log";
  /** Empty: not at all; else a centred mean of so many points, or an exponential mean with this share of the value before. */
  smooth: Smoothing;
}

/** Return the view in an address; what makes no sense is left out. */
export function curveViewOf(parameters: URLSearchParams): CurveView {
  return {
    x: parameters.get("x") === "step" ? "step" : "time",
    y: parameters.get("y") === "log" ? "log" : "linear",
    smooth: SMOOTHINGS.find((known) => known === parameters.get("smooth")) ?? "",
  };
}

/** Return the address's values of a view; defaults are empty. */
export function curveValues({ x, y, smooth }: CurveView): Record<keyof CurveView, string> {
  return { x: x === "step" ? x : "", y: y === "log" ? y : "", smooth };
}

/** Return values with less noise. Each gap stays one, and the values after it go on. */
export function smoothed<T extends number | null | undefined>(values: readonly T[], smoothing: Smoothing): (T | number)[] {
  const [kind, text] = smoothing.split("-");
  const known = values.filter((value) => typeof value === "number");
  if (!kind) return [...values];
  const means = kind === "mean" ? centredMeans(known, Number(text)) : exponentialMeans(known, Number(text));
  let next = 0;
  return values.map((value) => (typeof value === "number" ? (means[next++] ?? value) : value));
}

/** Return the mean of each value and its neighbours, of which there are fewer at the ends. */
function centredMeans(values: readonly number[], width: number): number[] {
  const half = Math.floor(width / 2);
  return values.map((_, index) => {
    const near = values.slice(Math.max(0, index - half), index + half + 1);
    return near.reduce((sum, value) => sum + value, 0) / near.length;
  });
}

/** Return exponential means without the bias of their first values, as TensorBoard computes them. */
function exponentialMeans(values: readonly number[], kept: number): number[] {
  let [sum, weight] = [0, 0];
  return values.map((value) => {
    sum = kept * sum + (1 - kept) * value;
    weight = kept * weight + (1 - kept);
    return sum / weight;
  });
}

/** The steps of a run: of each attempt, times in seconds and the median step of all ranks. */
export type Steps = ReadonlyMap<number, readonly (readonly [at: number, step: number])[]>;

export const STEP = "train.step";

/** Return the steps in a run's series; null if its program wrote none. */
export function stepsOf(series: readonly Pick<BandSeries, "name" | "points">[]): Steps | null {
  const found = new Map<number, [number, number][]>();
  for (const { at, attempt, p50 } of series.find(({ name }) => name === STEP)?.points ?? [])
    found.set(attempt, [...(found.get(attempt) ?? []), [seconds(at), p50]]);
  return found.size ? found : null;
}

/** Return the step of an attempt at a time; null before its first and after its last one. Between two known steps it is on the line between them. */
export function stepAt(steps: Steps, attempt: number, at: number): number | null {
  const known = steps.get(attempt) ?? [];
  const after = known.findIndex(([time]) => time >= at);
  const [next, before] = [known[after], known[after - 1]];
  if (!next) return null;
  if (next[0] === at) return next[1];
  if (!before) return null;
  return before[1] + ((next[1] - before[1]) * (at - before[0])) / (next[0] - before[0]);
}

/** The points of one attempt by their steps, in order. Of several with the same step the last one counts. */
export function byStep<P extends { at: string; attempt: number }>(points: readonly P[], steps: Steps): Map<number, [step: number, point: P][]> {
  const found = new Map<number, Map<number, P>>();
  for (const point of points) {
    const step = stepAt(steps, point.attempt, seconds(point.at));
    if (step !== null) found.set(point.attempt, (found.get(point.attempt) ?? new Map<number, P>()).set(step, point));
  }
  return new Map([...found].sort(([a], [b]) => a - b).map(([attempt, each]) => [attempt, [...each].sort(([a], [b]) => a - b)]));
}

/** Return lines with places of their own as columns with common places. */
export function aligned(lines: readonly (readonly (readonly [place: number, values: readonly (number | null)[]])[])[]): Columns {
  const places = [...new Set(lines.flatMap((line) => line.map(([place]) => place)))].sort((a, b) => a - b);
  const index = new Map(places.map((place, at) => [place, at]));
  const columns = lines.flatMap((line) => {
    const width = line[0]?.[1].length ?? 0;
    const found = Array.from({ length: width }, () => Array<number | null | undefined>(places.length).fill(undefined));
    for (const [place, values] of line) values.forEach((value, column) => (found[column]![index.get(place)!] = value));
    return found;
  });
  return [places, ...columns];
}

/** A plot of one figure of the training. */
export interface Curve {
  columns: Columns;
  shape: Shape;
  isLog: boolean;
  /** What the plot does not show, in words. */
  notes: string[];
  /** The points by their place on the horizontal axis. */
  points: ReadonlyMap<number, BandPoint>;
}

const MIDDLE = 2;

/** Return the curve of one figure: its bands and, before them, faint if it is smoothed, the median. By step each attempt is drawn by itself: the newest with its bands, the earlier ones as grey lines. */
export function curveOf(points: readonly BandPoint[], { x, y, smooth }: CurveView, steps: Steps | null, intervalSeconds: number): Curve {
  const drawn = x === "step" && steps ? overSteps(points, steps, smooth) : overTime(points, smooth, intervalSeconds);
  if (y === "linear") return { ...drawn, isLog: false, notes: [] };
  const shown = forLogarithm(drawn.columns, drawn.shape);
  if (!shown) return { ...drawn, isLog: false, notes: points.length ? ["No value is above 0, so the axis is linear."] : [] };
  return { ...drawn, columns: shown.columns, isLog: true, notes: hiddenWords(shown.hidden) };
}

/** Return what a logarithmic axis leaves out, in words. */
export function hiddenWords(hidden: number): string[] {
  return hidden ? [`${hidden.toLocaleString("en")} ${hidden === 1 ? "value" : "values"} of 0 or less ${hidden === 1 ? "is" : "are"} not drawn: a logarithmic axis has no place for ${hidden === 1 ? "it" : "them"}.`] : [];
}

type Drawn = Pick<Curve, "columns" | "shape" | "points">;

function overTime(points: readonly BandPoint[], smooth: Smoothing, intervalSeconds: number): Drawn {
  const places = new Map(points.map((point) => [seconds(point.at), point]));
  if (!smooth) return { columns: bandColumns(points, intervalSeconds), shape: BAND, points: places };
  const means = meansOf(points, smooth);
  const rows = points.map((point) => [seconds(point.at), ...bandOf(point), means.get(point) ?? null]);
  return { columns: gapped(rows, 7, 1.5 * intervalSeconds), shape: shapeOf(true, 0), points: places };
}

function overSteps(points: readonly BandPoint[], steps: Steps, smooth: Smoothing): Drawn {
  const attempts = [...byStep(points, steps).values()];
  const lines = attempts.map((attempt, index) => {
    const isNewest = index === attempts.length - 1;
    const means = smoothed(attempt.map(([, { p50 }]) => p50), smooth);
    return attempt.map(([step, point], at) => [step, isNewest ? [...bandOf(point), ...(smooth ? [means[at]!] : [])] : [means[at]!]] as const);
  });
  return {
    columns: aligned(lines.toReversed()),
    shape: lines.length ? shapeOf(smooth !== "", lines.length - 1) : BAND,
    points: new Map(attempts.flat()),
  };
}

/** Return the smoothed median of each point, of each attempt by itself. */
export function meansOf<P extends Pick<BandPoint, "attempt" | "p50">>(points: readonly P[], smooth: Smoothing): Map<P, number> {
  const attempts = new Map<number, P[]>();
  for (const point of points) attempts.set(point.attempt, [...(attempts.get(point.attempt) ?? []), point]);
  return new Map([...attempts.values()].flatMap((each) => smoothed(each.map(({ p50 }) => p50), smooth).map((mean, index) => [each[index]!, mean] as const)));
}

function shapeOf(isSmoothed: boolean, earlier: number): Shape {
  const lines: LineStyle[] = isSmoothed ? [...BAND.lines.map((line, index) => (index === MIDDLE ? { colour: 0, isFaint: true } : line)), { colour: 0, hasLast: true }] : [...BAND.lines];
  return { ...BAND, lines: [...lines, ...Array.from({ length: earlier }, () => ({ colour: "grey" as const }))] };
}
