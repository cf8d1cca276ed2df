/** Times and durations as words. */

const UNITS: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Return a duration in its largest unit, rounded down: "3 d", "12 min". */
export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit] of UNITS) if (whole >= size) return `${Math.floor(whole / size)} ${unit}`;
  return "0 s";
}

/** Return the seconds between two times; null if one of them is missing. */
export function secondsBetween(from: string | undefined, until: string | number | undefined): number | null {
  if (!from || !until) return null;
  const end = typeof until === "number" ? until : Date.parse(until);
  return (end - Date.parse(from)) / 1000;
}

/** Return how long ago a time was. */
export function ago(time: string | undefined, now: number): string {
  const lasted = durationUntil(time, now);
  return lasted && `${lasted} ago`;
}

/** Return how long it is from a time until now, as "2 h"; empty if the time is not known. */
export function durationUntil(time: string | undefined, now: number): string {
  const seconds = secondsBetween(time, now);
  return seconds === null ? "" : duration(seconds);
}

/** Words of a clock and of a calendar, in the person's language and time zone. */
export const HOUR_AND_MINUTE = new Intl.DateTimeFormat(undefined, { hour: "numeric", minute: "2-digit" });
export const MONTH_AND_DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const EXACT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

/** Return the exact time in the person's time zone, for the pointer over a relative one. */
export function exact(time: string | undefined): string {
  return time ? EXACT.format(new Date(time)) : "";
}

/** Return a sentence of the server with its times (in UTC, as 2026-11-29T22:14:05Z) as exact ones in the person's time zone. */
export function inOwnTime(sentence: string): string {
  return sentence.replace(/\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z\b/g, exact);
}
