/** The categories of a run's time, as the server's reports name them. */
import type { Schemas } from "../api/client";

export type TimeOf = Schemas["TimeOf"];

export interface Category {
  meaning: string;
  colour: string;
}

/** In the order in which they are shown. */
export const CATEGORIES: ReadonlyMap<string, Category> = new Map([
  ["productive", { meaning: "the program ran, and its work was kept", colour: "#0b6e69" }],
  ["saving", { meaning: "it stood still to write checkpoints", colour: "#5b9bd5" }],
  ["lost", { meaning: "work since the last checkpoint, done again", colour: "#b3261e" }],
  ["unclear", { meaning: "interrupted; its last checkpoint is not known", colour: "#d98880" }],
  ["hung", { meaning: "no progress", colour: "#7d3c98" }],
  ["idle", { meaning: "GPUs held and not used", colour: "#c77700" }],
  ["starting", { meaning: "images, volumes, code, until all programs ran", colour: "#1a5fb4" }],
  ["restarting", { meaning: "from a break until the nodes were free", colour: "#8a5200" }],
  ["queued", { meaning: "without nodes", colour: "#8fa3b5" }],
]);

/** Return the categories that took time, in the order of the table; unknown ones last. */
export function shownOf(parts: readonly TimeOf[]): TimeOf[] {
  const order = [...CATEGORIES.keys()];
  const place = ({ category }: TimeOf) => (order.includes(category) ? order.indexOf(category) : order.length);
  return parts.filter(({ seconds }) => seconds > 0).sort((a, b) => place(a) - place(b));
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
