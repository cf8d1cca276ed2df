/** Data of the board of GPUs. */
import type { Schemas } from "../api/client";
import { hours } from "../usage/usage";
import { count } from "../words/amounts";
import { secondsBetween } from "../words/times/times";

export type Board = Schemas["PublicBoard"];
export type GpuType = Schemas["GpuType"];
export type Holding = Schemas["BoardHolding"];

export type MonthUsage = Schemas["BoardUsage"];

/** A part of a bar. */
export interface Part {
  word: string;
  gpus: number;
  colour: string;
}

/** Colours of the parts. Each differs visibly from the background and from the parts beside it, on light and dark pages. */
const COLOURS = { busy: "primary.main", idle: "warning.main", free: "#7f93a6", out: "error.main" };

/** Return the parts of a type's bar that are not empty: GPUs at work, idle ones, free ones, and those of nodes that are broken, drained or cordoned. */
export function partsOf({ used, idle, free, broken }: GpuType): Part[] {
  const parts = [
    { word: "at work", gpus: used - idle, colour: COLOURS.busy },
    { word: "idle", gpus: idle, colour: COLOURS.idle },
    { word: "free", gpus: free, colour: COLOURS.free },
    { word: "take no work", gpus: broken, colour: COLOURS.out },
  ];
  return parts.filter(({ gpus }) => gpus > 0);
}

/** Return who holds GPUs: the most first. */
export function largestFirst(holdings: readonly Holding[]): Holding[] {
  return [...holdings].sort(
    (a, b) => b.gpus - a.gpus || a.owner.localeCompare(b.owner) || a.since.localeCompare(b.since),
  );
}

/** Return the words of the button that shows further rows: how many they are, and what they hold. */
export function othersInWords(holdings: readonly Holding[]): string {
  const sum = (of: (holding: Holding) => number) => holdings.reduce((total, each) => total + of(each), 0);
  const [gpus, idle] = [sum((each) => each.gpus), sum((each) => each.idle)];
  return `Show ${count(holdings.length)} more, with ${count(gpus)} GPUs${idle ? `, ${count(idle)} of them idle` : ""}`;
}

const AVERAGE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const LEAST_AVERAGE = 0.1;

/** Return in a sentence how much the GPUs were used in a month. */
export function monthInWords({ since, until, gpuSeconds }: MonthUsage): string {
  const seconds = secondsBetween(since, until);
  if (!gpuSeconds || !seconds) return "No run had GPUs.";
  const average = gpuSeconds / seconds;
  const gpus = average < LEAST_AVERAGE ? `fewer than ${AVERAGE.format(LEAST_AVERAGE)}` : AVERAGE.format(average);
  return `Runs had GPUs for ${hours(gpuSeconds)} GPU-hours: ${gpus} ${gpus === "1" ? "GPU" : "GPUs"} at any time on average.`;
}
