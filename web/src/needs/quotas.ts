/** Quotas of namespaces, in words. */
import type { Schemas } from "../api/client";

export type Quota = Schemas["QuotaView"];

const PREFIX = /^(requests|limits)\./;

/** Return what a quota counts, in words: "GPUs (nvidia.com/gpu)", "cores", "memory limits". */
export function wordsFor(resource: string): string {
  const kind = PREFIX.exec(resource)?.[1] ?? "";
  const name = resource.replace(PREFIX, "");
  const limits = kind === "limits" ? " (limits)" : "";
  if (name === "cpu") return `cores${limits}`;
  if (name === "memory") return `memory${limits}`;
  if (name.endsWith("/gpu")) return `GPUs (${name})`;
  if (name === "pods" || name === "count/pods") return "Pods";
  return name;
}

/** Return the quotas in the order of what is left: the one that is nearest to its end first. */
export function tightestFirst(quotas: readonly Quota[]): Quota[] {
  return [...quotas].sort((a, b) => b.part - a.part);
}
