/** The figures of a run as a plot takes them: columns of numbers, with gaps where nothing was measured. */
import type { Schemas } from "../api/client";
import { bytes } from "../words/amounts";
import { HOUR_AND_MINUTE, MONTH_AND_DAY } from "../words/times";

export type BandSeries = Schemas["BandSeries"];
export type BandPoint = Schemas["BandPoint"];
export type RankSeries = Schemas["RankSeries"];

/** Columns of one plot: times in seconds since 1970, then the values of each line; null in a gap. */
export type Columns = [number[], ...(number | null)[][]];

const TRAINING = "train.";
const SAMPLE_SECONDS = 15;
const NOT_PLOTTED = new Set(["memory.limit", "gpu.memory.total"]);
const FIRST = [TRAINING, "gpu.used", "gpu.memory.used", "cpu.used", "memory.used", "gpu.", "network.", "disk."];

/** Return the time and, in this order, minimum, 10th, 50th, 90th percentile and maximum over all ranks. */
export function bandColumns(points: readonly BandPoint[], intervalSeconds: number): Columns {
  const rows = points.map((point) => [
    seconds(point.at),
    point.min.value,
    point.p10,
    point.p50,
    point.p90,
    point.max.value,
  ]);
  return columnsOf(rows, 6, 1.5 * intervalSeconds);
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
  return columnsOf(rows, series.length + 1, 1.5 * SAMPLE_SECONDS);
}

function columnsOf(rows: readonly (readonly (number | null)[])[], width: number, gapSeconds: number): Columns {
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

/** Return the last value of each line, and the place of the line; of a band the median's. */
export function lastValues([, ...lines]: Columns, isBand: boolean): { line: number; value: number }[] {
  const shown = isBand ? lines.slice(2, 3) : lines;
  return shown.flatMap((values, line) => {
    const value = values.findLast((each) => each !== null);
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

const MOST_LINES = 4;

/** Return the series of one quantity in plots of at most four lines each. */
export function inPlots<T>(series: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(series.length / MOST_LINES) }, (_, plot) => series.slice(plot * MOST_LINES, (plot + 1) * MOST_LINES));
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

/** Return all bands as a table for other programs. */
export function csvOf(series: readonly BandSeries[]): string {
  const rows = series.flatMap(({ name, unit, points }) =>
    points.map(({ at, attempt, count, min, p10, p50, p90, max }) =>
      [name, unit, at, attempt, count, min.value, min.rank, p10, p50, p90, max.value, max.rank].join(","),
    ),
  );
  return ["name,unit,at,attempt,count,min,min_rank,p10,p50,p90,max,max_rank", ...rows, ""].join("\n");
}

function seconds(time: string): number {
  return Date.parse(time) / 1000;
}

const DAY_SECONDS = 24 * 3600;
const SECOND = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit", second: "2-digit" });

/** Return the labels of a time axis, in the person's time zone, for times that are `stepSeconds` apart. */
export function timeLabels(times: readonly number[], stepSeconds: number): string[] {
  return times.map((time) => {
    const date = new Date(time * 1000);
    const isMidnight = !date.getHours() && !date.getMinutes() && !date.getSeconds();
    if (stepSeconds >= DAY_SECONDS || isMidnight) return MONTH_AND_DAY.format(date);
    return (stepSeconds < 60 ? SECOND : HOUR_AND_MINUTE).format(date);
  });
}

const STEPS_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, DAY_SECONDS];

/** Return at most `most` + 1 round times, in seconds, between two others, and their distance. */
export function ticksOf(from: number, until: number, most: number): { times: number[]; stepSeconds: number } {
  const least = (until - from) / most;
  const stepSeconds = STEPS_SECONDS.find((step) => step >= least) ?? DAY_SECONDS * Math.ceil(least / DAY_SECONDS);
  // Round in the person's time zone: hours of a day begin at its midnight.
  const shift = new Date(from * 1_000).getTimezoneOffset() * 60;
  const first = Math.ceil((from - shift) / stepSeconds) * stepSeconds + shift;
  return { times: Array.from({ length: Math.max(0, Math.floor((until - first) / stepSeconds) + 1) }, (_, tick) => first + tick * stepSeconds), stepSeconds };
}

const SHORTEST_SECONDS = 120;

/** Return the range of a time axis: that of the times, but not shorter than two minutes. */
export function timeRange(first: number | null, last: number | null): [number, number] {
  const end = last ?? Date.now() / 1000;
  return [Math.min(first ?? end, end - SHORTEST_SECONDS), end];
}
