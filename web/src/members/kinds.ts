/** The meaning of the cells in the grid of members. */
import type { Member } from "../api/client";
import type { Kind } from "../cluster/colours";
import { FINDINGS, STATES, type State } from "../states/states";

/** A member as the grid shows it; a rank without a Pod has no `member`. */
export interface Placed {
  rank: number;
  member: Member | null;
}

export const KINDS = {
  failed: of("failed", "Failed", STATES.Failed, "crossed"),
  ending: of("ending", "Ending", STATES.Stopped, "part"),
  pending: of("pending", "Starting", STATES.Starting, "part"),
  unhealthy: of("unhealthy", "Unhealthy", FINDINGS.unhealthy, "crossed"),
  running: of("running", "Running", STATES.Running, "full"),
  succeeded: of("succeeded", "Succeeded", STATES.Succeeded, "full"),
  none: of("none", "Not there", STATES.Queued, "hollow"),
} as const satisfies Record<string, Kind>;

export function kindOf({ member }: Placed): Kind {
  if (!member) return KINDS.none;
  if (member.phase === "Failed") return KINDS.failed;
  if (member.terminating) return KINDS.ending;
  if (member.phase === "Running") return member.health === "unhealthy" ? KINDS.unhealthy : KINDS.running;
  return member.phase === "Succeeded" ? KINDS.succeeded : KINDS.pending;
}

/** Return all ranks of a run in their order, also those without a Pod. `total` is null if ranks are not 0, 1, 2 and so on. */
export function allRanks(members: readonly Member[], total: number | null): Placed[] {
  if (total === null) return members.map((member) => ({ rank: member.rank, member }));
  const byRank = new Map(members.map((member) => [member.rank, member]));
  const count = Math.max(total, ...[...byRank.keys()].map((rank) => rank + 1));
  return Array.from({ length: count }, (_, rank) => ({ rank, member: byRank.get(rank) ?? null }));
}

/** Say how a member is, in one line. */
export function told(placed: Placed): string {
  const { member } = placed;
  if (!member) return "it has no Pod now";
  const parts = [kindOf(placed).word, member.node && `on ${member.node}`, [member.reason, member.message].filter(Boolean).join(": ")];
  if (member.attempt > 1) parts.push(`attempt ${member.attempt}`);
  if (member.restarts) parts.push(member.restarts === 1 ? "restarted once" : `restarted ${member.restarts} times`);
  return parts.filter(Boolean).join("; ");
}

function of(key: string, word: string, { light, dark }: State, fill: Kind["fill"]): Kind {
  return { key, word, light, dark, fill };
}
