/** Streams of changes: what a page shows is kept current by the server, and a dead connection is noticed. */
import { doubtSession } from "./session";
import { whoAmI } from "./signIn";

/** The server sends a heartbeat after 15 s without changes. */
export const SILENCE_MS = 40_000;
const AGAIN_MS = 3_000;

export interface Reader {
  /** A new state, which replaces all that came before. */
  snapshot: (data: string) => void;
  changes: (data: string) => void;
  /** The server was heard: what the page shows is current. */
  heard: () => void;
  /** The connection broke, or the server refuses this browser. */
  broken: (error: Error) => void;
}

type Source = Pick<EventSource, "addEventListener" | "close" | "readyState">;

/** Follow a stream of changes until the returned function is called. After a break the server sends what changed meanwhile. `since` is the version of an earlier answer. */
export function followChanges(
  path: string,
  reader: Reader,
  { since = "", open = (address: string): Source => new EventSource(address) } = {},
): () => void {
  let source: Source;
  let version = since;
  let again: ReturnType<typeof setTimeout> | undefined;
  let silence: ReturnType<typeof setTimeout> | undefined;

  const heard = () => {
    listen();
    reader.heard();
  };
  const listen = () => {
    clearTimeout(silence);
    silence = setTimeout(notHeard, SILENCE_MS);
  };
  const notHeard = () => {
    reader.broken(new Error("the server does not answer"));
    source.close();
    start();
  };
  const read = (take: (data: string) => void) => (event: Event) => {
    const { data, lastEventId } = event as MessageEvent<string>;
    version = lastEventId || version;
    take(data);
    heard();
  };
  const start = () => {
    const mine = open(withSince(path, version));
    source = mine;
    listen();
    source.addEventListener("open", heard);
    source.addEventListener("snapshot", read(reader.snapshot));
    source.addEventListener("changes", read(reader.changes));
    source.addEventListener("heartbeat", read(() => undefined));
    source.addEventListener("error", () => {
      if (source !== mine) return;
      reader.broken(new Error("the server does not answer"));
      if (mine.readyState !== CLOSED) return listen(); // the browser opens it again by itself
      clearTimeout(silence);
      void refusal().then((error) => error && source === mine && reader.broken(error));
      again = setTimeout(start, AGAIN_MS);
    });
  };
  start();
  return () => {
    clearTimeout(again);
    clearTimeout(silence);
    source.close();
  };
}

const CLOSED = 2;

function withSince(path: string, version: string): string {
  return version ? `${path}${path.includes("?") ? "&" : "?"}since=${encodeURIComponent(version)}` : path;
}

/** Return why the server refuses this browser, which a stream of events does not tell; null if it does not. */
async function refusal(): Promise<Error | null> {
  try {
    if (await whoAmI()) return null;
    doubtSession();
    return new Error("your session has ended");
  } catch (error) {
    return error instanceof Error ? error : null;
  }
}

/** How current what a page shows is. */
export interface Link {
  /** When it was current for the last time, in milliseconds; 0 if it never was. */
  currentAt: number;
  /** Why it is not current now. */
  error: Error | null;
}

export const NO_LINK: Link = { currentAt: 0, error: null };

/** Return the link after the server was heard. */
export function heardAt(now: number): Link {
  return { currentAt: now, error: null };
}

/** Return the link after a break: the page was current until the first sign of it. */
export function brokenAt({ currentAt, error }: Link, now: number, reason: Error): Link {
  return { currentAt: currentAt > 0 && !error ? now : currentAt, error: reason };
}
