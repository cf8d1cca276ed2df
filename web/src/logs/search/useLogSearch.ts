import { useCallback, useEffect, useRef, useState } from "react";
import { linesOf, refusalFrom, type Schemas } from "../../api/client";
import { steadyFetch } from "../../api/steady";
import type { Hit } from "../feed/feed";
import type { Source } from "../feed/sources";

/** What lines are searched for. */
export interface Wanted {
  text: string;
  /** Whether the text is a regular expression, in the syntax of RE2. */
  isRegex: boolean;
  /** Whether upper and lower case differ. */
  matchesCase: boolean;
}

export interface LogSearch extends Wanted {
  /** The lines that were found, by time: at most the first 10,000. */
  hits: readonly Hit[];
  /** How many there are, also beyond these. */
  matches: number;
  searchedBytes: number;
  isSearching: boolean;
  error: Error | null;
}

export const PLAIN: Wanted = { text: "", isRegex: false, matchesCase: false };
const NONE: LogSearch = { ...PLAIN, hits: [], matches: 0, searchedBytes: 0, isSearching: false, error: null };
const MOST_HITS = 10_000;

type Answer = Schemas["LogMatch"] & Schemas["LogSearchState"];

/** Search logs on the server. Another search, and leaving the page, end the one before. */
export function useLogSearch(path: string, sources: readonly Source[]): [LogSearch, (wanted: Wanted) => void] {
  const [found, setFound] = useState<LogSearch>(NONE);
  const ending = useRef(new AbortController());
  useEffect(() => () => ending.current.abort(), []);
  const search = useCallback(
    (wanted: Wanted) => {
      ending.current.abort();
      if (!wanted.text) return setFound(NONE);
      const abort = new AbortController();
      ending.current = abort;
      setFound({ ...NONE, ...wanted, isSearching: true });
      run(path, sources, wanted, abort.signal, (state) => setFound({ ...NONE, ...wanted, isSearching: true, ...state }))
        .then((state) => setFound({ ...NONE, ...wanted, ...state }))
        .catch((error: Error) => !abort.signal.aborted && setFound({ ...NONE, ...wanted, error }));
    },
    [path, sources],
  );
  return [found, search];
}

type State = Pick<LogSearch, "hits" | "matches" | "searchedBytes">;

async function run(path: string, sources: readonly Source[], wanted: Wanted, signal: AbortSignal, show: (state: State) => void): Promise<State> {
  const hits: Hit[] = [];
  const counts = new Map<string, { matches: number; searched: number }>();
  const state = () => {
    const sums = [...counts.values()];
    const sorted = [...hits].sort((a, b) => (a.time < b.time ? -1 : a.time > b.time ? 1 : 0));
    return { hits: sorted, matches: sum(sums.map(({ matches }) => matches)), searchedBytes: sum(sums.map(({ searched }) => searched)) };
  };
  const left = requestsOf(sources);
  for (let request = left.shift(); request; request = left.shift()) {
    const limit = Math.max(0, MOST_HITS - hits.length);
    const query = new URLSearchParams([
      ...request,
      ["text", wanted.text],
      ["regex", `${wanted.isRegex}`],
      ["ignoreCase", `${!wanted.matchesCase}`],
      ["brief", "true"],
      ["limit", `${limit}`],
    ]);
    const answer = await steadyFetch(`${path}/search?${query}`, { signal });
    if (answer.status === 404) continue;
    if (!answer.ok) throw await refusalFrom(answer);
    if (!answer.body) continue;
    const part = request.map((pair) => pair.join()).join();
    for await (const lines of linesOf(answer.body)) {
      for (const line of lines) {
        const { rank, attempt, time, nth, cursor, matches, searched, done, next } = JSON.parse(line) as Answer;
        if (cursor) hits.push({ rank, attempt, time, nth: nth ?? 1, cursor });
        else counts.set(`${rank} ${part}`, { matches: matches ?? 0, searched: searched ?? 0 });
        if (done && next) left.push([["rank", `${rank}`], ["attempt", `${attempt}`], ["after", next]]);
      }
      show(state());
    }
  }
  return state();
}

/** Return the parameters of one request for each attempt. */
function requestsOf(sources: readonly Source[]): [string, string][][] {
  const attempts = [...new Set(sources.map(({ attempt }) => attempt))];
  return attempts.map((attempt) => [
    ...sources.filter((source) => source.attempt === attempt).map(({ rank }): [string, string] => ["rank", `${rank}`]),
    ...(attempt === null ? [] : [["attempt", `${attempt}`] as [string, string]]),
  ]);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, each) => total + each, 0);
}
