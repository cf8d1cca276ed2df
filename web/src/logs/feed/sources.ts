/** Which logs a person looks at: ranks, each in the newest attempt or in an older one. */

export interface Source {
  rank: number;
  /** The attempt; null: the newest and those after it. */
  attempt: number | null;
}

export const MOST_SOURCES = 64;
const PART = /^(\d{1,5})(?:-(\d{1,5}))?(?:@(\d{1,9}))?$/;

/** Return the logs that a text such as "0-3, 7, 0@1" names; null if it is none. */
export function parseSources(text: string): Source[] | null {
  const found = new Map<string, Source>();
  for (const part of text.split(",").map((each) => each.trim())) {
    const match = PART.exec(part);
    if (!match) return null;
    const [first, last] = [Number(match[1]), Number(match[2] ?? match[1])];
    if (last < first) return null;
    const attempt = match[3] ? Number(match[3]) : null;
    for (let rank = first; rank <= last && found.size < MOST_SOURCES; rank++) found.set(keyOf({ rank, attempt }), { rank, attempt });
  }
  return [...found.values()];
}

/** Return the text of logs, with ranges: "0-3, 7, 0@1". */
export function textOf(sources: readonly Source[]): string {
  const parts: string[] = [];
  for (let start = 0; start < sources.length; ) {
    let end = start;
    while (follows(sources[end], sources[end + 1])) end++;
    const [first, last] = [sources[start], sources[end]];
    if (first && last) parts.push(`${first.rank}${end > start ? `-${last.rank}` : ""}${first.attempt === null ? "" : `@${first.attempt}`}`);
    start = end + 1;
  }
  return parts.join(", ");
}

/** A short name of a log: "3", or "3@1" in attempt 1. */
export function keyOf({ rank, attempt }: Source): string {
  return attempt === null ? `${rank}` : `${rank}@${attempt}`;
}

/** The name of a log: "rank 3", "rank 3, attempt 1". */
export function wordsOf({ rank, attempt }: Source): string {
  return attempt === null ? `rank ${rank}` : `rank ${rank}, attempt ${attempt}`;
}

function follows(one: Source | undefined, next: Source | undefined): boolean {
  return !!one && !!next && next.rank === one.rank + 1 && next.attempt === one.attempt;
}
