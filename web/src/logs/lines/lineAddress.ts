/** A line of a log, and a search in logs, as they stand in the address of a run's page. */
import { withValues } from "../../address/useAddress";
import type { Hit } from "../feed/feed";
import type { Wanted } from "../search/useLogSearch";

const LINE = /^(\d{1,5})@(\d{1,9}),(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z)(?:,(\d{1,9}))?$/;

type Line = Pick<Hit, "rank" | "attempt" | "time" | "nth">;

/** Return the text of a line: "0@1,2026-11-21T10:00:00.5Z", for the second one with this time ",2" behind it. */
export function lineText({ rank, attempt, time, nth }: Line): string {
  return `${rank}@${attempt},${time}${nth > 1 ? `,${nth}` : ""}`;
}

/** Return the line that a text names; null if it names none. */
export function parseLine(text: string | null): Hit | null {
  const match = LINE.exec(text ?? "");
  if (!match?.[3]) return null;
  return { rank: Number(match[1]), attempt: Number(match[2]), time: match[3], nth: Number(match[4] ?? 1), cursor: "" };
}

/** Return the search in an address; its text is empty if there is none. */
export function wantedIn(parameters: URLSearchParams): Wanted {
  const text = parameters.get("search") ?? "";
  return { text, isRegex: !!text && parameters.get("regex") === "1", matchesCase: !!text && parameters.get("case") === "1" };
}

/** Return the parameters of an address with another search. */
export function withWanted(parameters: URLSearchParams, { text, isRegex, matchesCase }: Wanted): URLSearchParams {
  return withValues(parameters, { search: text, regex: text && isRegex ? "1" : "", case: text && matchesCase ? "1" : "" });
}

/** Return the parameters of a link to a line: of its run, even if a newer one has its name then, and of the logs beside it. */
export function linkTo(line: Line, uid: string, logs: string, parameters: URLSearchParams): URLSearchParams {
  const next = withWanted(new URLSearchParams({ uid, logs, line: lineText(line) }), wantedIn(parameters));
  return parameters.get("beside") === "1" ? withValues(next, { beside: "1" }) : next;
}
