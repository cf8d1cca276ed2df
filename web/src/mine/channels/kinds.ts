/** Kinds of messages about runs, in words. */

export const KINDS: ReadonlyMap<string, string> = new Map([
  ["started", "it started after a long wait"],
  ["ended", "it succeeded, was stopped, or restarts as asked"],
  ["failed", "it failed, with the reason and its last lines"],
  ["preempted", "another run got its nodes"],
  ["drained", "it leaves a node that an operator drains"],
  ["idle", "its GPUs are idle: keep it, or park it?"],
  ["stuck", "it has made no progress for long"],
  ["time-limit", "it soon reaches its time limit"],
]);

/** Return the kinds of a channel: "all messages", or which. */
export function kindsInWords(kinds: readonly string[]): string {
  return [...KINDS.keys()].every((kind) => kinds.includes(kind)) ? "all messages" : kinds.join(", ");
}
