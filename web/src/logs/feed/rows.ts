/** The part of a log that the page holds: consecutive lines in chunks, of which those farthest from the reader are dropped. */
import type { Schemas } from "../../api/client";

export type LogWindow = Schemas["LogWindow"];

export interface Row {
  /** Never used twice on a page. */
  key: number;
  rank: number;
  attempt: number;
  /** Empty if it is not known. */
  time: string;
  /** Its number among consecutive lines with this time, from 1. */
  nth: number;
  text: string;
  cut?: boolean;
  /** Whether the page says this, and not the program. */
  isNote?: boolean;
}

/** Where to ask for the lines before a chunk. */
export type Earlier = { before: string } | { to: string };

export interface Chunk {
  rows: readonly Row[];
  /** Null if the chunk begins the log. */
  earlier: Earlier | null;
  /** Position of its last line. */
  after: string;
}

export interface Held {
  chunks: readonly Chunk[];
  /** Whether the last chunk ends the log as far as it is known. */
  isAtEnd: boolean;
}

export const NOTHING: Held = { chunks: [], isAtEnd: true };
export const MOST_ROWS = 20_000;
const CHUNK_ROWS = 1_000;

let lastKey = 0;

/** Return a key for a new row. */
export function newKey(): number {
  return ++lastKey;
}

/** Return a chunk with the lines of an answer. */
export function chunkOf(window: LogWindow): Chunk {
  const { rank, attempt } = window;
  const rows = window.lines.map(({ time, line, nth, cut }) => ({ key: newKey(), rank, attempt, time: time ?? "", nth: nth ?? 1, text: lastDrawing(line), cut: cut ?? false }));
  return { rows, earlier: window.before ? { before: window.before } : null, after: window.after ?? "" };
}

/** Return what is held after a window replaced everything. */
export function only(window: LogWindow): Held {
  const chunk = chunkOf(window);
  return { chunks: chunk.rows.length ? [chunk] : [], isAtEnd: window.atEnd ?? false };
}

/** Return what is held with a chunk before it; of too many rows the last ones are dropped. */
export function withEarlier(held: Held, chunk: Chunk): Held {
  const first = held.chunks[0];
  // An empty answer means that nothing is before the first chunk any more.
  if (!chunk.rows.length) return first ? { ...held, chunks: [{ ...first, earlier: null }, ...held.chunks.slice(1)] } : held;
  const chunks = [chunk, ...held.chunks];
  let isAtEnd = held.isAtEnd;
  while (chunks.length > 1 && sizeOf(chunks) - (chunks.at(-1)?.rows.length ?? 0) >= MOST_ROWS) {
    chunks.pop();
    isAtEnd = false;
  }
  return { chunks, isAtEnd };
}

/** Return what is held with a later chunk; of too many rows the first ones are dropped. */
export function withLater(held: Held, chunk: Chunk, isAtEnd: boolean): Held {
  const last = held.chunks.at(-1);
  const joined = last ? { ...chunk, earlier: { to: last.after } } : chunk;
  return { chunks: bounded(chunk.rows.length ? [...held.chunks, joined] : held.chunks), isAtEnd };
}

/** Return what is held with lines that the program has just printed, up to a position. */
export function withNew(held: Held, printed: readonly Row[], after: string): Held {
  const last = held.chunks.at(-1);
  let before = last?.rows.findLast(({ isNote }) => !isNote);
  const rows = printed.map((row) => {
    if (row.isNote) return row;
    before = { ...row, nth: before?.time === row.time ? before.nth + 1 : 1 };
    return before;
  });
  if (!rows.length) return last ? { ...held, chunks: [...held.chunks.slice(0, -1), { ...last, after }] } : held;
  if (last && last.rows.length < CHUNK_ROWS) {
    const whole = { rows: [...last.rows, ...rows], earlier: last.earlier, after };
    return { chunks: bounded([...held.chunks.slice(0, -1), whole]), isAtEnd: true };
  }
  return { chunks: bounded([...held.chunks, { rows, earlier: last ? { to: last.after } : null, after }]), isAtEnd: true };
}

/** Return what is held with more text in its last line. */
export function withLongerLine(held: Held, text: string): Held {
  const last = held.chunks.at(-1);
  const row = last?.rows.at(-1);
  if (!last || !row) return held;
  const longer = { ...row, text: lastDrawing(row.text + text) };
  return { ...held, chunks: [...held.chunks.slice(0, -1), { ...last, rows: [...last.rows.slice(0, -1), longer] }] };
}

function bounded(chunks: readonly Chunk[]): readonly Chunk[] {
  let first = 0;
  let size = sizeOf(chunks);
  while (first < chunks.length - 1 && size - (chunks[first]?.rows.length ?? 0) >= MOST_ROWS) size -= chunks[first++]?.rows.length ?? 0;
  return first ? chunks.slice(first) : chunks;
}

export function sizeOf(chunks: readonly Chunk[]): number {
  return chunks.reduce((sum, { rows }) => sum + rows.length, 0);
}

/** Return the rows of several logs by time. Rows are left out that are older than what is held of another log. */
export function merged(logs: readonly Held[]): readonly Row[] {
  const only = logs[0];
  if (only && logs.length === 1) return only.chunks.flatMap(({ rows }) => rows);
  const from = horizon(logs);
  const until = end(logs);
  const timed: { time: string; row: Row }[] = [];
  for (const { chunks } of logs) {
    let time = "";
    for (const { rows } of chunks)
      for (const row of rows) {
        time = row.time || time;
        if (time >= from && (!until || time <= until)) timed.push({ time, row });
      }
  }
  timed.sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
  return timed.map(({ row }) => row);
}

/** Return the places of the logs whose held part begins latest, of those that have earlier lines: these are read next. */
export function latestToBegin(logs: readonly Held[]): number[] {
  const from = horizon(logs);
  return logs.flatMap((held, place) => (held.chunks[0]?.earlier && firstTime(held) >= from ? [place] : []));
}

function horizon(logs: readonly Held[]): string {
  return logs.reduce((latest, held) => (held.chunks[0]?.earlier && firstTime(held) > latest ? firstTime(held) : latest), "");
}

/** Return the time until which every log is held; empty if all are held to their ends. */
function end(logs: readonly Held[]): string {
  const ends = logs.filter(({ isAtEnd }) => !isAtEnd).map((held) => held.chunks.at(-1)?.rows.at(-1)?.time ?? "");
  return ends.filter(Boolean).sort()[0] ?? "";
}

function firstTime(held: Held): string {
  return held.chunks[0]?.rows.find(({ time }) => time)?.time ?? "";
}

/** Return what a terminal shows in the end of a line that a progress bar drew several times. */
export function lastDrawing(line: string): string {
  const trimmed = line.endsWith("\r") ? line.slice(0, -1) : line;
  return trimmed.slice(trimmed.lastIndexOf("\r") + 1);
}
