/** Where the bars of the timeline lie: lanes of GPU types or of nodes, and runs from their start to their expected end. */
import { compareNames, expanded } from "../../cluster/names";
import type { QueueRow } from "../useQueue";
import { keyOf } from "../words";

export type Rowed = "type" | "node";

export interface Bar {
  run: QueueRow;
  /** Milliseconds since 1970. */
  from: number;
  /** The earlier end of the expected end; the same as `until` if there is one estimate. */
  certain: number;
  /** The later end; infinite if no end is known. */
  until: number;
}

export interface Lane {
  bars: Bar[];
}

export interface Group {
  /** The GPU type or the node. */
  title: string;
  lanes: Lane[];
}

export interface Timeline {
  groups: Group[];
  /** Waiting runs without a known start, in the order of the queue. */
  unknown: QueueRow[];
}

/** Spans of the timeline that a person can choose, in hours. */
export const SPANS = [1, 6, 24, 72, 168] as const;
const HOUR_MS = 3_600_000;
/** The part of the timeline that lies in the past. */
export const PAST_SHARE = 0.12;

/** Return the bars of the runs between two times, packed so that none covers another. */
export function timelineOf(runs: readonly QueueRow[], rowed: Rowed, from: number, until: number): Timeline {
  const unknown = runs.filter(({ state, startsAt }) => state === "waiting" && !startsAt).sort((a, b) => a.position - b.position);
  const bars = runs.map(barOf).filter((bar) => bar !== null && bar.from < until && bar.until > from) as Bar[];
  bars.sort((a, b) => a.from - b.from || b.run.gpus - a.run.gpus || compareNames(keyOf(a.run), keyOf(b.run)));
  const groups = new Map<string, Bar[]>();
  for (const bar of bars)
    for (const title of rowed === "type" ? [bar.run.gpuType] : nodesOf(bar.run)) {
      const group = groups.get(title);
      if (group) group.push(bar);
      else groups.set(title, [bar]);
    }
  const titles = [...groups].sort(([a], [b]) => Number(!a) - Number(!b) || compareNames(a, b));
  return { groups: titles.map(([title, bars]) => ({ title: title || "Any type or none", lanes: packed(bars) })), unknown };
}

/** Return from when to when a run is drawn; null if its start is not known. */
export function barOf(run: QueueRow): Bar | null {
  if (!run.startsAt) return null;
  const from = Date.parse(run.startsAt);
  const until = run.endsAt ? Date.parse(run.endsAt) : Infinity;
  const certain = run.endsAtEarliest ? Date.parse(run.endsAtEarliest) : until;
  return { run, from, certain: Math.min(Math.max(certain, from), until), until };
}

function nodesOf(run: QueueRow): string[] {
  return run.nodes ? expanded(run.nodes) : [];
}

/** Expected ends and the starts that follow from them are rounded apart. */
const TOLERANCE_MS = 60_000;

/** Put each bar into the first lane that is free when it starts. */
function packed(bars: readonly Bar[]): Lane[] {
  const lanes: (Lane & { free: number })[] = [];
  for (const bar of bars) {
    const lane = lanes.find(({ free }) => free <= bar.from + TOLERANCE_MS);
    if (lane) {
      lane.bars.push(bar);
      lane.free = bar.until;
    } else lanes.push({ bars: [bar], free: bar.until });
  }
  return lanes.map(({ bars }) => ({ bars }));
}

/** Return the first and the last time of a timeline of so many hours. */
export function spanned(now: number, hours: number): [number, number] {
  return [now - PAST_SHARE * hours * HOUR_MS, now + (1 - PAST_SHARE) * hours * HOUR_MS];
}

/** Return the shortest span in which the next expected ends and starts can be seen, and the start of the selected run. */
export function suitableSpan(runs: readonly QueueRow[], now: number, selected = ""): number {
  const times = runs.flatMap(({ startsAt, endsAt }) => [startsAt, endsAt]).filter(Boolean).map((time) => Date.parse(time));
  const ahead = times.filter((time) => time > now).sort((a, b) => a - b);
  const middle = ahead[Math.floor(ahead.length / 2)];
  if (middle === undefined) return 24;
  const start = Date.parse(runs.find((run) => keyOf(run) === selected)?.startsAt || "") || 0;
  return SPANS.find((hours) => spanned(now, hours)[1] > Math.max(middle, start)) ?? 168;
}

export interface Tick {
  at: number;
  word: string;
}

const STEPS_MIN = [10, 30, 60, 180, 360, 720, 1_440, 2_880];

/** Return marks at round local times, at most one in `pixels / 80`. */
export function ticks(from: number, until: number, pixels: number, words: Intl.DateTimeFormat, days: Intl.DateTimeFormat): Tick[] {
  const least = (until - from) / Math.max(1, pixels / 80);
  const step = (STEPS_MIN.find((minutes) => minutes * 60_000 >= least) ?? 2_880) * 60_000;
  const offset = new Date(from).getTimezoneOffset() * 60_000;
  const found: Tick[] = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < until; at += step) {
    const isMidnight = (at - offset) % 86_400_000 === 0;
    found.push({ at, word: isMidnight || step >= 86_400_000 ? days.format(at) : words.format(at) });
  }
  return found;
}
