/** Ticks and labels of the axes of plots. */
import { HOUR_AND_MINUTE, MONTH_AND_DAY } from "../../words/times/times";

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

/** Distances of ticks on an axis of durations, in seconds; up to a hundred days. */
export const DURATION_STEPS = [...STEPS_SECONDS, ...[2, 5, 10, 20, 50, 100].map((days) => days * DAY_SECONDS)];

/** Return a time since a start in its two largest units: "1 h 30 min". */
export function lasted(seconds: number): string {
  const rest = Math.round(Math.abs(seconds));
  const parts = [
    [Math.floor(rest / DAY_SECONDS), "d"],
    [Math.floor(rest / 3600) % 24, "h"],
    [Math.floor(rest / 60) % 60, "min"],
    [rest % 60, "s"],
  ] as const;
  const first = parts.findIndex(([amount]) => amount > 0);
  const words = first < 0 ? ["0"] : parts.slice(first, first + 2).flatMap(([amount, unit]) => (amount ? [`${amount} ${unit}`] : []));
  return `${seconds < 0 && first >= 0 ? "−" : ""}${words.join(" ")}`;
}

const MOST_TICKS = 6;
const MULTIPLES = [[1, 2, 5], [1, 3], [1]] as const;

/** Return ticks of a logarithmic axis: round numbers in each decade, or at equal distances if the axis covers less than one. */
export function logTicks(min: number, max: number): number[] {
  const powers = Array.from({ length: Math.floor(Math.log10(max)) - Math.floor(Math.log10(min)) + 1 }, (_, index) => Math.floor(Math.log10(min)) + index);
  const inside = (multiples: readonly number[], every = 1) =>
    powers.filter((power) => power % every === 0).flatMap((power) => multiples.map((times) => Number(`${times}e${power}`)).filter((value) => value >= min && value <= max));
  const found = MULTIPLES.map((multiples) => inside(multiples)).find((ticks) => ticks.length <= MOST_TICKS) ?? inside([1], Math.ceil(powers.length / MOST_TICKS));
  if (found.length >= 3) return found;
  const rough = (max - min) / (MOST_TICKS - 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 5].find((times) => times * power >= rough) ?? 10) * power;
  return Array.from({ length: Math.floor(max / step) - Math.ceil(min / step) + 1 }, (_, index) => Number(((Math.ceil(min / step) + index) * step).toPrecision(12)));
}
