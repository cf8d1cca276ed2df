/** Usage by day or hour, as columns over time. */
import { boundsOf, type Span } from "../choices/span";
import { exact } from "../words/times/times";
import { amountInWords, amountOf, MEASURES, money, type Measure, type TimeBy, type Usage, type UsageRow } from "./usage";

const SECONDS: Readonly<Record<TimeBy, number>> = { day: 86_400, hour: 3_600 };
/** The server refuses to count the hours of a longer time. */
const MOST_DAYS_OF_HOURS = 32;
/** Up to this many days, hours are shown where a person did not choose. */
const FEW_DAYS = 8;
/** The server counts this many days where no beginning is named. */
const DAYS_BY_DEFAULT = 30;

/** Return the length of a span in days; `now` is in milliseconds. */
function lengthInDays(span: Span, now: number): number {
  const { since, until } = boundsOf(span, now);
  const end = until ? Math.min(Date.parse(until), now) : now;
  return since ? (end - Date.parse(since)) / (1000 * SECONDS.day) : DAYS_BY_DEFAULT;
}

/** Whether the hours of a span can be counted. */
export function hasHours(span: Span, now: number): boolean {
  return lengthInDays(span, now) < MOST_DAYS_OF_HOURS;
}

/** Return whether a span is shown by days or by hours. */
export function timeByOf(span: Span, now: number): TimeBy {
  return lengthInDays(span, now) <= FEW_DAYS ? "hour" : "day";
}

/** The usage of one day or hour. */
export interface Column {
  /** Its beginning, in milliseconds. */
  start: number;
  /** GPUs or cores that were in use on average, or the cost. */
  height: number;
  /** What the pointer shows. */
  words: string;
}

const AVERAGE = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const DAY = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeZone: "UTC" });

/** Return the columns of usage by day or hour. The first and the last one may be shorter than a day or hour: an average counts their part in the time. */
export function columnsOf({ by, since, until, items, currency }: Usage, measure: Measure): Column[] {
  const seconds = SECONDS[by as TimeBy];
  const [first, last] = [Date.parse(since) / 1000, Date.parse(until) / 1000];
  return items.flatMap((row) => {
    const start = Date.parse(row.key) / 1000;
    if (Number.isNaN(start)) return []; // the sum of runs that only daily sums are left of
    const covered = Math.min(start + seconds, last) - Math.max(start, first);
    const height = measure === "cost" ? row.cost : covered > 0 ? amountOf(row, measure) / covered : 0;
    return [{ start: 1000 * start, height, words: wordsOf(row, by as TimeBy, height, measure, currency) }];
  });
}

function wordsOf(row: UsageRow, by: TimeBy, height: number, measure: Measure, currency: string): string {
  const when = by === "day" ? `${DAY.format(Date.parse(row.key))} (UTC)` : exact(row.key);
  if (measure === "cost") return `${when}: ${money(row.cost, currency)}`;
  return `${when}: ${heightInWords(height, measure, currency)} on average, ${amountInWords(row, measure, currency)}`;
}

/** Return a height with its unit: "33.4 GPUs", "1 core", "12.50 EUR". */
export function heightInWords(height: number, measure: Measure, currency: string): string {
  if (measure === "cost") return money(height, currency);
  const number = AVERAGE.format(height);
  return `${number} ${measure === "gpu" ? "GPU" : "core"}${number === "1" ? "" : "s"}`;
}

/** Return the title of the columns. */
export function titleOf(by: TimeBy, measure: Measure): string {
  if (measure === "cost") return `${MEASURES.cost.word} by ${by}`;
  return `${measure === "gpu" ? "GPUs" : "Cores"} in use, average of each ${by}`;
}
