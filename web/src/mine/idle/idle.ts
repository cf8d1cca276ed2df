/** Answers to the question whether a run with idle GPUs is still needed. */
import type { Schemas } from "../../api/client";
import { duration, exact, secondsBetween } from "../../words/times/times";

export type IdleRun = Schemas["IdleRun"];

export interface KeepChoice {
  word: string;
  hours: number;
}

/** The answers of one click. */
export const KEEPS: readonly KeepChoice[] = [
  { word: "Keep for 4 hours", hours: 4 },
  { word: "Keep for a day", hours: 24 },
];

/** Return the time until which a run is kept, as the Web API takes it; `now` is in milliseconds. */
export function untilOf(hours: number, now: number): string {
  return new Date(now + hours * 3_600_000).toISOString();
}

/** Return a time that a person chose in a field, in their time zone; empty if it is none. */
export function chosenTime(text: string): string {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? "" : time.toISOString();
}

/** Return a sentence that says what happens to the run if its owner does not answer. */
export function outcomeOf({ answer, keptUntil, parkAt }: IdleRun, now: number): string {
  if (answer === "parked") return "It is being parked.";
  if (keptUntil) return `You keep it until ${exact(keptUntil)}.`;
  const left = secondsBetween(new Date(now).toISOString(), parkAt);
  if (left !== null) return left > 0 ? `It is parked in ${duration(left)} unless you answer.` : "It is parked soon unless you answer.";
  return answer === "unsure" ? "Perhaps only some of its GPUs are idle." : "It keeps its GPUs until you answer.";
}

/** Return what the idle time cost, in words: "36 GPU-hours, 72.00 EUR". */
export function costOf({ gpuHours, cost, currency }: IdleRun): string {
  const price = cost ? `, ${[cost.toFixed(2), currency].filter(Boolean).join(" ")}` : "";
  return `${gpuHours.toLocaleString(undefined, { maximumFractionDigits: 1 })} GPU-hours${price}`;
}
