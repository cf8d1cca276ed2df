/** The time span of a page about the past, as its address contains it. */
import { exact } from "../words/times/times";

export type Kind = "all" | "7d" | "30d" | "month" | "last-month" | "own";

export const KINDS: ReadonlyMap<Kind, string> = new Map([
  ["all", "Any time"],
  ["7d", "7 days"],
  ["30d", "30 days"],
  ["month", "This month"],
  ["last-month", "Last month"],
  ["own", "From … to …"],
]);

export interface Span {
  kind: Kind;
  /** First and last day of a range of one's own, such as "2026-11-21"; empty for an open end. */
  from: string;
  to: string;
}

/** The beginning and the end of a span, as the Web API takes them; empty for an open end. */
export interface Bounds {
  since: string;
  until: string;
}

const DAY_MS = 86_400_000;
const DATE = /^\d{4}-\d{2}-\d{2}$/;

/** Return the span in an address. Invalid parts are left out. */
export function spanOf(parameters: URLSearchParams, otherwise: Kind = "30d"): Span {
  const kind = parameters.get("time") as Kind | null;
  const [from, to] = [day(parameters.get("from")), day(parameters.get("to"))];
  if (kind && KINDS.has(kind)) return { kind, from, to };
  return { kind: from || to ? "own" : otherwise, from, to };
}

/** Write a span into an address; the default is left out. */
export function writeSpan(parameters: URLSearchParams, { kind, from, to }: Span, otherwise: Kind = "30d"): void {
  for (const name of ["time", "from", "to"]) parameters.delete(name);
  if (kind !== otherwise) parameters.set("time", kind);
  if (kind !== "own") return;
  if (from) parameters.set("from", from);
  if (to) parameters.set("to", to);
}

/** Return the bounds of a span; `now` is in milliseconds. Days are those of the person's time zone. */
export function boundsOf({ kind, from, to }: Span, now: number): Bounds {
  const today = new Date(now);
  const month = (offset: number) => iso(new Date(today.getFullYear(), today.getMonth() + offset, 1).getTime());
  switch (kind) {
    case "all":
      return { since: "", until: "" };
    case "7d":
      return { since: iso(now - 7 * DAY_MS), until: "" };
    case "30d":
      return { since: iso(now - 30 * DAY_MS), until: "" };
    case "month":
      return { since: month(0), until: "" };
    case "last-month":
      return { since: month(-1), until: month(0) };
    case "own":
      return { since: from && iso(midnight(from)), until: to && iso(midnight(to, 1)) };
  }
}

/** Return the options of a `kaji` command for a span: durations stay durations, so that the line is right tomorrow as well. */
export function optionsOf(span: Span, now: number, bounded: (bounds: Bounds) => Bounds = (bounds) => bounds): string[] {
  if (span.kind === "7d" || span.kind === "30d") return ["--since", span.kind];
  const { since, until } = bounded(boundsOf(span, now));
  return [...(since ? ["--since", since] : []), ...(until ? ["--until", until] : [])];
}

const SHORT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });

/** Return the days of a time that the server used: "24 Oct 2026 to 23 Nov 2026". */
export function daysOf({ since, until }: Bounds): string {
  const last = new Date(Date.parse(until) - 1);
  const [first, end] = [SHORT.format(new Date(since)), SHORT.format(last)];
  return first === end ? first : `${first} to ${end}`;
}

/** Return the exact times, for the pointer over the days. */
export function timesOf({ since, until }: Bounds): string {
  return `${exact(since)} to ${exact(until)}`;
}

function day(text: string | null): string {
  return text && DATE.test(text) && !Number.isNaN(Date.parse(text)) ? text : "";
}

function midnight(date: string, further = 0): number {
  const [year = 0, month = 1, number = 1] = date.split("-").map(Number);
  return new Date(year, month - 1, number + further).getTime();
}

export function iso(time: number): string {
  return new Date(time).toISOString().replace(/\.\d+Z$/, "Z");
}
