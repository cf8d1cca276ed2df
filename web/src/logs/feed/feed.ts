/** Reads the logs that a page shows: their ends, what is before and after, what surrounds a place, and what comes new. */
import { refusalFrom, Refused } from "../../api/client";
import { steadyFetch } from "../../api/steady";
import { FrameReader, type Batch } from "./frames";
import { chunkOf, latestToBegin, merged, newKey, NOTHING, only, withEarlier, withLater, withLongerLine, withNew, type Held, type LogWindow, type Row } from "./rows";
import type { Source } from "./sources";

export interface FeedState {
  rows: readonly Row[];
  /** Whether the end of every log is held, so that new lines appear. */
  isAtEnd: boolean;
  /** Whether the beginning of every log is held. */
  isAtBeginning: boolean;
  /** Lines that the programs printed since the page is open. */
  received: number;
  isLoading: boolean;
  /** Why there are no lines, in the server's words. */
  missing: string;
  error: Error | null;
}

/** Where a search found a line. */
export interface Hit {
  rank: number;
  attempt: number;
  time: string;
  /** Its number among consecutive lines with this time, from 1. */
  nth: number;
  /** Its position; empty if it is not known. */
  cursor: string;
}

const WINDOW_LINES = 1_000;
const SHOWN_EVERY_MS = 100;
const AGAIN_MS = 2_000;
/** Of more new lines at once, only the last ones are held. */
const MOST_AT_ONCE = 5_000;

/** The logs of a run, as one page holds them. `close` it at the end. */
export class LogFeed {
  private logs: Held[];
  private state: FeedState = { rows: [], isAtEnd: false, isAtBeginning: false, received: 0, isLoading: true, missing: "", error: null };
  private readonly listeners = new Set<() => void>();
  private reading = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private again: ReturnType<typeof setTimeout> | undefined;
  /** The reading in which earlier or later lines are being fetched; null if none are. */
  private extending: AbortSignal | null = null;

  /** `path` is the address of the logs; `mayGrow` is false for a run that has ended. */
  constructor(
    private readonly path: string,
    readonly sources: readonly Source[],
    private readonly mayGrow: boolean,
    private readonly get: typeof fetch = steadyFetch,
  ) {
    this.logs = sources.map(() => NOTHING);
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = (): FeedState => this.state;

  close(): void {
    this.reading.abort();
    clearTimeout(this.timer);
    clearTimeout(this.again);
  }

  /** Show the ends of the logs, and follow them. */
  toEnd(): void {
    void this.replace((source) => this.window(source, {}), true);
  }

  /** Show what surrounds a line. */
  toHit(hit: Hit): void {
    void this.replace((source) => this.around(source, hit), false);
  }

  /** Show the logs from a time on (`10m` ago, or RFC 3339), or the first one from the number of a line on. */
  toPlace(place: { since: string } | { line: string }): void {
    const first = this.sources[0];
    void this.replace((source) => ("since" in place || source === first ? this.window(source, place) : Promise.resolve(null)), false);
  }

  /** Read the lines before those that are held. */
  async older(): Promise<void> {
    await this.extend(async (signal) => {
      for (const place of latestToBegin(this.logs)) {
        const [held, source] = [this.logs[place], this.sources[place]];
        const earlier = held?.chunks[0]?.earlier;
        if (!held || !source || !earlier) continue;
        const found = await this.window({ ...source, attempt: null }, earlier, signal);
        signal.throwIfAborted();
        this.logs[place] = withEarlier(this.logs[place] ?? held, chunkOf(found));
      }
    });
  }

  /** Read the lines behind those that are held, if they are not the last ones. */
  async newer(): Promise<void> {
    if (this.logs.every(({ isAtEnd }) => isAtEnd)) return;
    const isDone = await this.extend(async (signal) => {
      for (const [place, held] of this.logs.entries()) {
        const source = this.sources[place];
        const after = held.chunks.at(-1)?.after;
        if (held.isAtEnd || !source || !after) continue;
        const found = await this.window({ ...source, attempt: null }, { after }, signal);
        signal.throwIfAborted();
        this.logs[place] = withLater(held, chunkOf(found), found.atEnd ?? false);
      }
    });
    if (isDone && this.logs.every(({ isAtEnd }) => isAtEnd)) this.follow();
  }

  /** Return whether what is held now was extended by this call. */
  private async extend(read: (signal: AbortSignal) => Promise<void>): Promise<boolean> {
    const { signal } = this.reading;
    // While another place is read, what is held is about to be replaced, and its neighbours with it.
    if (this.extending === signal || this.state.isLoading) return false;
    this.extending = signal;
    try {
      await read(signal);
      if (!signal.aborted) this.show({ error: null });
    } catch (error) {
      if (!signal.aborted) this.show({ error: error as Error });
    } finally {
      if (this.extending === signal) this.extending = null;
    }
    return !signal.aborted;
  }

  private async replace(read: (source: Source) => Promise<LogWindow | null>, follows: boolean): Promise<void> {
    this.reading.abort();
    this.reading = new AbortController();
    clearTimeout(this.again);
    const { signal } = this.reading;
    this.show({ isLoading: true });
    try {
      const found = await Promise.all(this.sources.map(read));
      if (signal.aborted) return;
      this.logs = found.map((window) => (window ? only(window) : NOTHING));
      this.show({ isLoading: false, error: null, missing: found.map((window) => window?.missing).find(Boolean) ?? "" });
      if (follows) this.follow();
    } catch (error) {
      if (signal.aborted) return;
      this.show({ isLoading: false, error: error as Error });
      if (!(error instanceof Refused && error.status < 500)) this.again = setTimeout(() => void this.replace(read, follows), AGAIN_MS);
    }
  }

  private async around(source: Source, hit: Hit): Promise<LogWindow | null> {
    const isItsLog = source.rank === hit.rank && (source.attempt === null || source.attempt === hit.attempt);
    if (isItsLog && hit.cursor) return this.window({ ...source, attempt: null }, { at: hit.cursor });
    // The server's times have six digits.
    return this.window(isItsLog ? { ...source, attempt: hit.attempt } : source, { since: hit.time.replace(/(\.\d{6})\d+Z$/, "$1Z") });
  }

  /** Return a part of a log. A position names its attempt. */
  private async window(source: Source, place: Record<string, string>, signal = this.reading.signal): Promise<LogWindow> {
    const query = new URLSearchParams({ rank: `${source.rank}`, limit: `${WINDOW_LINES}`, ...place });
    if (source.attempt !== null) query.set("attempt", `${source.attempt}`);
    const answer = await this.get(`${this.path}/window?${query}`, { signal });
    if (!answer.ok) throw await refusalFrom(answer);
    return (await answer.json()) as LogWindow;
  }

  /** Follow the logs that may grow: those of the newest attempts. */
  private follow(): void {
    const followed = this.sources.flatMap((source, place) => (source.attempt === null ? [place] : []));
    if (!this.mayGrow || !followed.length) return;
    const { signal } = this.reading;
    this.stream(followed, signal).then(
      () => undefined,
      (error: Error) => {
        if (signal.aborted) return;
        this.show({ error });
        if (!(error instanceof Refused && error.status < 500)) this.again = setTimeout(() => this.follow(), AGAIN_MS);
      },
    );
  }

  private async stream(followed: readonly number[], signal: AbortSignal): Promise<void> {
    const query = new URLSearchParams({ follow: "true", frames: "true", timestamps: "true" });
    const places = new Map<number, number>();
    for (const place of followed) {
      const rank = this.sources[place]?.rank ?? 0;
      places.set(rank, place);
      query.append("rank", `${rank}`);
      const after = this.logs[place]?.chunks.at(-1)?.after;
      if (after) query.append("resume", after);
    }
    const answer = await this.get(`${this.path}?${query}`, { signal });
    if (!answer.ok) throw await refusalFrom(answer);
    this.show({ error: null });
    const frames = new FrameReader();
    const reader = answer.body?.getReader();
    while (reader) {
      const { done, value } = await reader.read();
      if (done) return;
      for (const batch of frames.feed(value)) {
        const place = places.get(batch.rank);
        if (place !== undefined) this.take(place, batch);
      }
      this.timer ??= setTimeout(() => this.show({}), SHOWN_EVERY_MS);
    }
  }

  private take(place: number, { rank, attempt, rest, rows, cursor }: Batch): void {
    let held = this.logs[place] ?? NOTHING;
    this.state = { ...this.state, received: this.state.received + rows.length };
    if (!held.isAtEnd) return; // the person reads elsewhere
    if (rest) held = withLongerLine(held, rest);
    const before = held.chunks.at(-1)?.rows.at(-1)?.attempt;
    const shown = rows.slice(-MOST_AT_ONCE);
    const note: Row = { key: newKey(), rank, attempt, time: shown[0]?.time ?? "", nth: 0, text: `Attempt ${attempt} begins`, isNote: true };
    this.logs[place] = withNew(held, before !== undefined && before !== attempt && shown.length ? [note, ...shown] : shown, cursor);
  }

  private show(change: Partial<FeedState>): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.state = {
      ...this.state,
      rows: merged(this.logs),
      isAtEnd: this.logs.every(({ isAtEnd }) => isAtEnd),
      isAtBeginning: this.logs.every(({ chunks }) => !chunks[0]?.earlier),
      ...change,
    };
    this.listeners.forEach((listener) => listener());
  }
}
