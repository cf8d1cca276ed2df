/** Where the time of nodes went, from the server's report about all runs of some days. */
import type { Schemas } from "../api/client";
import { iso, type Bounds } from "../choices/span";
import { share } from "./usage";

export type Report = Schemas["TimeReport"];

export interface Part {
  category: string;
  meaning: string;
  seconds: number;
}

/** Return the bounds for a report, which counts whole days: its end is a time on the last of them. */
export function daysAsked({ since, until }: Bounds): Bounds {
  return { since, until: until && iso(Date.parse(until) - 1_000) };
}

/** Whether the report's amounts are GPU time; else they are the time of members, since no run had GPUs. */
export function hasGpus({ total }: Report): boolean {
  return total.gpuSeconds > 0;
}

/** Return the categories that took time, in the server's order. */
export function partsOf(report: Report): Part[] {
  return report.total.categories
    .map(({ category, meaning, gpuSeconds, memberSeconds }) => ({
      category,
      meaning,
      seconds: hasGpus(report) ? gpuSeconds : memberSeconds,
    }))
    .filter(({ seconds }) => seconds > 0);
}

/** Return in a sentence how much of the time was productive. */
export function ratioInWords(report: Report): string {
  if (report.ratio === null) return "No run held nodes in this time.";
  const what = hasGpus(report) ? "the time for which GPUs were held" : "the time for which members held nodes";
  const part = share(report.ratio, 1);
  return `${part.charAt(0).toUpperCase()}${part.slice(1)} of ${what} was productive.`;
}
