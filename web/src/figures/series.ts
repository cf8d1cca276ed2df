/** The figures of a run as a plot takes them: columns of numbers, with gaps where nothing was measured. */
import type { Schemas } from "../api/client";
import { bytes } from "../words/amounts";

export type BandSeries = Schemas["BandSeries"];
export type BandPoint = Schemas["BandPoint"];
export type RankSeries = Schemas["RankSeries"];

/** Columns of one plot: places on the horizontal axis (times in seconds since 1970, or steps), then the values of each line; null in a gap, undefined where another line alone has a value. */
export type Columns = [number[], ...(number | null | undefined)[][]];

const TRAINING = "train.";
/** Distance of the samples of one rank. */
export const SAMPLE_SECONDS = 15;
const NOT_PLOTTED = new Set(["memory.limit", "gpu.memory.total"]);
const FIRST = [TRAINING, "gpu.used", "gpu.memory.used", "cpu.used", "memory.used", "gpu.", "network.", "disk."];

/** Return the time and, in this order, minimum, 10th, 50th, 90th percentile and maximum over all ranks. */
export function bandColumns(points: readonly BandPoint[], intervalSeconds: number): Columns {
  return gapped(points.map((point) => [seconds(point.at), ...bandOf(point)]), 6, 1.5 * intervalSeconds);
}

/** Return minimum, 10th, 50th, 90th percentile and maximum. */
export function bandOf({ min, p10, p50, p90, max }: BandPoint): number[] {
  return [min.value, p10, p50, p90, max.value];
}

/** Return the time and one column of each series of one rank: one, or one of each GPU. */
export function rankColumns(series: readonly RankSeries[]): Columns {
  const byTime = new Map<number, (number | null)[]>();
  series.forEach(({ samples }, column) => {
    for (const { at, value } of samples) {
      const time = seconds(at);
      const row = byTime.get(time) ?? Array<number | null>(series.length).fill(null);
      row[column] = value;
      byTime.set(time, row);
    }
  });
  const rows = [...byTime].sort(([a], [b]) => a - b).map(([time, values]) => [time, ...values]);
  return gapped(rows, series.length + 1, 1.5 * SAMPLE_SECONDS);
}

/** Return rows, each with its place first, as columns, with a gap after each place whose next one is farther away. */
export function gapped(rows: readonly (readonly (number | null)[])[], width: number, gapSeconds: number): Columns {
  const columns = Array.from({ length: width }, () => [] as (number | null)[]);
  let before: number | null = null;
  for (const row of rows) {
    const time = row[0] ?? 0;
    if (before !== null && time - before > gapSeconds) {
      columns.forEach((column, index) => column.push(index ? null : before! + 1));
    }
    columns.forEach((column, index) => column.push(row[index] ?? null));
    before = time;
  }
  return columns as Columns;
}

/** Return the times, in seconds, at which another attempt began. */
export function attemptStarts(points: readonly BandPoint[]): number[] {
  return points
    .filter((point, index) => index && point.attempt !== points[index - 1]?.attempt)
    .map(({ at }) => seconds(at));
}

/** Times, in seconds, that all plots of a page mark. */
export interface Marks {
  /** Beginnings of further attempts. */
  attempts: readonly number[];
  /** Ends of checkpoints. */
  checkpoints: readonly number[];
  /** Times that stand behind the lines. */
  spans?: readonly Span[];
}

/** A time with a grey ground, in seconds since 1970. */
export interface Span {
  from: number;
  until: number;
  isDark: boolean;
}

/** Return the marks of series over all ranks. `checkpoints` are times as the server writes them. */
export function marksOf(series: readonly BandSeries[], checkpoints: readonly string[]): Marks {
  const attempts = new Set(series.flatMap(({ points }) => attemptStarts(points)));
  return { attempts: [...attempts], checkpoints: checkpoints.map(seconds) };
}

/** Return the time axis of several plots: from their first to their last point. */
export function sharedRange(times: readonly (readonly { at: string }[])[]): [number, number] {
  const ends = times.flatMap((points) => [points[0], points.at(-1)]).flatMap((point) => (point ? [seconds(point.at)] : []));
  return ends.length ? [Math.min(...ends), Math.max(...ends)] : [0, 0];
}

const MOST_LINES = 4;

/** Return the series of one quantity in plots of at most four lines each. */
export function inPlots<T>(series: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(series.length / MOST_LINES) }, (_, plot) => series.slice(plot * MOST_LINES, (plot + 1) * MOST_LINES));
}

/** Whether a figure is one that the program wrote. */
export function isOfTraining({ name }: { name: string }): boolean {
  return name.startsWith(TRAINING);
}

/** Return the series that are plotted: what the program wrote itself, then GPUs, processors and memory, then all others. */
export function ordered<T extends { name: string }>(series: readonly T[]): T[] {
  const place = ({ name }: T) => {
    const found = FIRST.findIndex((start) => name.startsWith(start));
    return found < 0 ? FIRST.length : found;
  };
  return series.filter(({ name }) => !NOT_PLOTTED.has(name)).sort((a, b) => place(a) - place(b));
}

/** Return the series of one rank by name: several GPUs share a plot. */
export function byName(series: readonly RankSeries[]): Map<string, RankSeries[]> {
  const found = new Map<string, RankSeries[]>();
  for (const each of ordered(series)) found.set(each.name, [...(found.get(each.name) ?? []), each]);
  return found;
}

/** Return the point of a time, which may lie in a gap. */
export function pointAt(points: readonly BandPoint[], time: number): BandPoint | undefined {
  return points.find(({ at }) => seconds(at) === time);
}

/** Whether values with this unit are bytes, or bytes a second. */
export function isBytes(unit: string): boolean {
  return unit.startsWith("bytes");
}

/** Return a value with its unit, with three significant digits: "1.5 GiB", "87 %". */
export function amount(value: number, unit: string): string {
  if (isBytes(unit)) return `${bytes(value)}${unit.slice("bytes".length)}`;
  if (unit === "1/s") return `${digits(value)}/s`;
  return unit && unit !== "count" ? `${digits(value)} ${unit}` : digits(value);
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size && (size < 0.00001 || size >= 1e9)) return value.toExponential(2);
  return size >= 1000 ? Math.round(value).toLocaleString() : `${Number(value.toPrecision(3))}`;
}

/** Return a time of the server in seconds since 1970. */
export function seconds(time: string): number {
  return Date.parse(time) / 1000;
}

/** Return what one rank's program wrote as bands of this rank alone. */
export function asBand({ samples, ...about }: RankSeries, rank: number, attempt: number): BandSeries {
  const points = samples.map(({ at, value }) => ({ at, attempt, count: 1, min: { value, rank, gpu: null }, p10: value, p50: value, p90: value, max: { value, rank, gpu: null } }));
  return { ...about, points };
}
