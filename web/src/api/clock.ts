/** The server's time: a browser whose clock is wrong shows right ages, and asks for right times. */

/** Differences up to this one come from the header's whole seconds and the time on the way. */
const NEGLIGIBLE_MS = 3_000;

let ahead = 0;

/** Return by how much the server's clock is ahead of this one, in milliseconds, from an answer's header `Date`; `before` if it does not tell. */
export function aheadBy(date: string | null, now: number, before: number): number {
  const told = Date.parse(date ?? "");
  if (Number.isNaN(told)) return before;
  return Math.abs(told - now) <= NEGLIGIBLE_MS ? 0 : told - now;
}

/** Note the time of an answer. */
export function noteTime(date: string | null): void {
  ahead = aheadBy(date, Date.now(), ahead);
}

/** Return the present time of the server, in milliseconds. */
export function serverNow(): number {
  return Date.now() + ahead;
}
