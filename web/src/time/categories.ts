/** The categories of a run's time, as the server's reports name them. */
import type { Schemas } from "../api/client";

export type TimeOf = Schemas["TimeOf"];

/** The colours of the known categories. */
export const COLOURS: ReadonlyMap<string, string> = new Map([
  ["productive", "#0b6e69"],
  ["saving", "#5b9bd5"],
  ["lost", "#b3261e"],
  ["unclear", "#d98880"],
  ["hung", "#7d3c98"],
  ["idle", "#c77700"],
  ["starting", "#1a5fb4"],
  ["restarting", "#8a5200"],
  ["queued", "#8fa3b5"],
]);

/** Return the categories that took time, in the server's order. */
export function shownOf(parts: readonly TimeOf[]): TimeOf[] {
  return parts.filter(({ seconds }) => seconds > 0);
}

/** Return the share of a category in all of the time, in words: "12.3 %". */
export function share(part: TimeOf, all: readonly TimeOf[]): string {
  const total = all.reduce((sum, { seconds }) => sum + seconds, 0);
  return total ? `${((100 * part.seconds) / total).toFixed(1)} %` : "";
}

/** Return hours of GPUs, or of members where a run has no GPUs. */
export function hours(part: { gpuSeconds: number; memberSeconds: number }, hasGpus: boolean): string {
  return ((hasGpus ? part.gpuSeconds : part.memberSeconds) / 3600).toFixed(2);
}
