/** The figures of a node over time as its plots and their table take them. */
import type { Schemas } from "../../api/client";
import { amount, gapped, seconds, type Columns } from "../../figures/series";
import type { Shape } from "../../figures/plot/shape";
import { lineOf } from "../../words/commands";
import { cell } from "../../words/csv";

export type NodeMetrics = Schemas["NodeMetrics"];
export type NodeSeries = Schemas["NodeSeries"];
export type NodeHolder = Schemas["NodeHolder"];

export interface Range {
  word: string;
  /** The largest number of points: a minute, ten minutes or an hour each. */
  points: number;
}

export const RANGES: Readonly<Record<string, Range>> = {
  "1h": { word: "Last hour", points: 60 },
  "1d": { word: "Last day", points: 144 },
  "7d": { word: "Last week", points: 168 },
};
export const USUAL_RANGE = "1h";

/** Plots in their order: the quantity, its title, and the quantity that is the whole of it. */
const PLOTS: readonly (readonly [name: string, title: string, whole?: string])[] = [
  ["gpu.used", "GPU use"],
  ["gpu.memory.used", "GPU memory", "gpu.memory.total"],
  ["gpu.temperature", "GPU temperature"],
  ["gpu.power", "GPU power"],
  ["cpu.used", "CPU"],
  ["memory.used", "Memory"],
];

/** What a node has in all. */
export interface Totals {
  cpuCores: number;
  memoryBytes: number;
}

/** One plot: a line, or the least, median and most of several GPUs. */
export interface NodePlotData {
  name: string;
  title: string;
  unit: string;
  description: string;
  columns: Columns;
  shape: Shape;
  /** Numbers of the GPUs with the least and the most value, by time; empty for a single line. */
  extremes: ReadonlyMap<number, readonly [least: number, most: number]>;
  /** Amount of which the values are parts: "80 GiB"; empty if there is none. */
  whole: string;
}

const LINE: Shape = { lines: [{ colour: 0, hasLast: true }], areas: [], middle: null };
const SPREAD: Shape = { lines: [{ colour: null }, { colour: 0, hasLast: true }, { colour: null }], areas: [[2, 0, 0.2]], middle: 1 };

/** Return the plots of a node: of one GPU, or over all GPUs if `gpu` is null. */
export function plotsOf(found: NodeMetrics, gpu: number | null, totals: Totals): NodePlotData[] {
  const times = found.at.map(seconds);
  return PLOTS.flatMap(([name, title, whole]) => {
    const all = found.series.filter((each) => each.name === name);
    const chosen = all.filter((each) => isOf(each, gpu));
    const [first] = chosen;
    if (!first) return [];
    const { unit, description } = first;
    const extremes = new Map<number, readonly [number, number]>();
    const rows = times.map((time, index) => {
      if (chosen.length === 1) return [time, first.values[index] ?? null];
      const spread = spreadAt(chosen, index);
      if (spread) extremes.set(time, [spread.least.gpu, spread.most.gpu]);
      return spread ? [time, spread.least.value, spread.median, spread.most.value] : [time, null, null, null];
    });
    const shape = chosen.length === 1 ? LINE : SPREAD;
    const columns = gapped(rows, shape.lines.length + 1, 1.5 * found.intervalSeconds);
    return [{ name, title, unit, description, columns, shape, extremes, whole: wholeOf(found, whole, name, gpu, totals) }];
  });
}

function isOf({ gpu }: NodeSeries, chosen: number | null): boolean {
  return gpu === null || gpu === undefined || chosen === null || gpu === chosen;
}

/** Return the least, middle and largest value of several GPUs at one time; null if none was measured. */
function spreadAt(series: readonly NodeSeries[], index: number) {
  const known = series
    .flatMap(({ gpu, values }) => {
      const value = values[index];
      return typeof value === "number" ? [{ gpu: gpu ?? 0, value }] : [];
    })
    .sort((a, b) => a.value - b.value);
  const [least, most] = [known[0], known.at(-1)];
  if (!least || !most) return null;
  const [below, above] = [known[Math.floor((known.length - 1) / 2)]!, known[Math.ceil((known.length - 1) / 2)]!];
  return { least, most, median: (below.value + above.value) / 2 };
}

function wholeOf({ series }: NodeMetrics, whole: string | undefined, name: string, gpu: number | null, totals: Totals): string {
  if (name === "cpu.used" && totals.cpuCores) return `${amount(totals.cpuCores, "")} cores`;
  if (name === "memory.used" && totals.memoryBytes) return amount(totals.memoryBytes, "bytes");
  const value = series.find((each) => each.name === whole && isOf(each, gpu))?.values.findLast((each) => typeof each === "number");
  return typeof value === "number" ? amount(value, "bytes") : "";
}

/** Return the value of a plot at a place of its columns in words: "93 %", or "median 93 %" of several GPUs. */
export function wordsAt({ columns: [, ...values], unit, whole }: NodePlotData, index: number): string {
  const [first, median] = values.map((column) => column[index]);
  if (typeof first !== "number") return "not measured";
  const value = typeof median === "number" ? `median ${inUnit(median, unit, whole)}` : inUnit(first, unit, whole);
  return whole ? `${value} of ${whole}` : value;
}

/** Return the range of several GPUs in words: "71 % (GPU 3) to 99 % (GPU 0)"; empty for a single line. */
export function extremesAt({ columns: [times, ...values], shape, unit, extremes }: NodePlotData, index: number): string {
  if (shape === LINE) return "";
  const [least, , most] = values.map((column) => column[index]);
  const [low, high] = extremes.get(times[index] ?? 0) ?? [0, 0];
  if (typeof least !== "number" || typeof most !== "number") return "no GPU was measured";
  return least === most ? "all GPUs alike" : `${amount(least, unit)} (GPU ${low}) to ${amount(most, unit)} (GPU ${high})`;
}

/** Return a value, without a unit that its whole has as well. */
function inUnit(value: number, unit: string, whole: string): string {
  return unit === "cores" && whole ? amount(value, "") : amount(value, unit);
}

/** Return the index of the last point with a value. */
export function lastIndex({ columns: [, ...values] }: NodePlotData): number {
  return values[0]?.findLastIndex((value) => typeof value === "number") ?? -1;
}

// ---------------------------------------------------------------------------------------------- holders

/** Return the runs that held the node, or one of its GPUs, in the order of time. */
export function holdersOf({ holders }: NodeMetrics, gpu: number | null): NodeHolder[] {
  return gpu === null ? holders : holders.filter(({ gpus }) => gpus.includes(gpu));
}

/** Return the name of a run; a run that the person may not read has none. */
export function nameOf({ namespace, run }: NodeHolder): string {
  return run ? `${namespace}/${run}` : "a run that you may not read";
}

/** Return the runs that held the node at a time in words: "held by vision/bert". */
export function heldWords(holders: readonly NodeHolder[], time: number): string {
  const names = new Set(holders.filter(({ since, until }) => seconds(since) <= time && time < seconds(until)).map(nameOf));
  return names.size ? `held by ${[...names].slice(0, 3).join(", ")}${names.size > 3 ? ` and ${names.size - 3} more` : ""}` : "no run";
}

/** Return the times in which runs held the node; those of a second run beside or after the first are darker. */
export function spansOf(holders: readonly NodeHolder[]): { from: number; until: number; isDark: boolean }[] {
  const names = [...new Set(holders.map(nameOf))];
  return holders.map((held) => ({ from: seconds(held.since), until: seconds(held.until), isDark: names.indexOf(nameOf(held)) % 2 === 1 }));
}

/** Return GPUs as ranges: "GPUs 0-3, 7"; empty for none, and for all GPUs. */
export function gpusOf({ gpus }: NodeHolder, count: number): string {
  if (!gpus.length || gpus.length === count) return "";
  const parts: [number, number][] = [];
  for (const gpu of gpus) {
    const last = parts.at(-1);
    if (last && last[1] === gpu - 1) last[1] = gpu;
    else parts.push([gpu, gpu]);
  }
  return `GPU${gpus.length > 1 ? "s" : ""} ${parts.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ")}`;
}

// ---------------------------------------------------------------------------------------------- copies

/** Return the line for a terminal that asks the same. */
export function commandOf(node: string, range: string, gpu: number | null): string {
  return lineOf("metrics", { "--node": node, "--since": range, "--gpu": gpu === null ? "" : `${gpu}` });
}

/** Return all values as CSV, as `kaji metrics --node NODE -o csv` prints them. */
export function nodeCsv({ node, at, series }: NodeMetrics): string {
  const rows = series.flatMap(({ name, unit, gpu, values }) =>
    values.flatMap((value, index) => (value === null ? [] : [[name, unit, cell(node), gpu ?? "", at[index], value].join(",")])),
  );
  return ["name,unit,node,gpu,at,value", ...rows, ""].join("\n");
}
