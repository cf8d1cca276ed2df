/** Ranges of addresses: what lies in them, and how large they are. */
import type { Schemas } from "../../api/client";

export type Range = Schemas["NetworkRange"];
export type NodeNetwork = Schemas["NodeNetwork"];

interface Address {
  value: bigint;
  bits: number;
}

/** Return an IPv4 or IPv6 address as a number; null for any other text. */
export function addressOf(text: string): Address | null {
  if (/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) {
    const parts = text.split(".").map(Number);
    return parts.every((part) => part < 256) ? { value: parts.reduce((sum, part) => sum * 256n + BigInt(part), 0n), bits: 32 } : null;
  }
  if (!/^[0-9a-f:]{2,39}$/i.test(text) || !text.includes(":")) return null;
  const [left = "", right, more] = text.split("::");
  const groups = (part: string) => (part ? part.split(":") : []);
  const [before, after] = [groups(left), groups(right ?? "")];
  const missing = 8 - before.length - after.length;
  if (more !== undefined || (right === undefined ? missing !== 0 : missing < 1)) return null;
  const all = [...before, ...Array<string>(missing).fill("0"), ...after];
  if (!all.every((group) => /^[0-9a-f]{1,4}$/i.test(group))) return null;
  return { value: all.reduce((sum, group) => (sum << 16n) + BigInt(`0x${group}`), 0n), bits: 128 };
}

/** Whether an address lies in a range such as 10.1.0.0/16. */
export function contains(cidr: string, { value, bits }: Address): boolean {
  const [start = "", length = ""] = cidr.split("/");
  const first = addressOf(start);
  if (!first || first.bits !== bits) return false;
  const rest = BigInt(bits - Number(length));
  return first.value >> rest === value >> rest;
}

/** Return how many addresses a range has, as people write it. */
export function sizeOf(cidr: string): string {
  const [start = "", length = ""] = cidr.split("/");
  const rest = (addressOf(start)?.bits ?? 0) - Number(length);
  return rest <= 32 ? (2 ** rest).toLocaleString("en") : `2^${rest}`;
}

/** Return the ranges that a text finds: those that contain an address, or all words. */
export function found(ranges: readonly Range[], text: string): Range[] {
  const address = addressOf(text.trim());
  if (address) return ranges.filter(({ cidr, public: outside }) => contains(cidr, address) || (outside && contains(outside, address)));
  const words = text.toLowerCase().split(/\s+/);
  return ranges.filter((range) => {
    const shown = [range.cluster, range.kind, range.cidr, range.public, range.natHost, ...(range.via ?? [])].join(" ").toLowerCase();
    return words.every((word) => shown.includes(word));
  });
}

/** Return how a range is reached from outside of its cluster. */
export function outsideOf({ kind, public: outside }: Range): string {
  return outside || (kind === "services" ? "not reached" : "as it is");
}

/** Return through which hosts a range is reached. */
export function throughOf({ via = [], natHost }: Range): string {
  return natHost ? `${natHost} (${via.join(", ")})` : via.join(", ");
}

/** Return the share of a node's addresses that is in use; null if it has no range of its own. */
export function shareOf({ pods, addresses }: NodeNetwork): number | null {
  return addresses === null || addresses === undefined ? null : pods / Math.max(1, addresses);
}

/** Return the nodes, those whose addresses do not suffice first, then the fullest. */
export function scarcestFirst(nodes: readonly NodeNetwork[]): NodeNetwork[] {
  return [...nodes].sort((a, b) => Number(!a.runsOut) - Number(!b.runsOut) || (shareOf(b) ?? -1) - (shareOf(a) ?? -1) || a.name.localeCompare(b.name, "en", { numeric: true }));
}

/** Say how many nodes run out of addresses. */
export function wordsOfUse(nodes: readonly NodeNetwork[]): string {
  const short = nodes.filter(({ runsOut }) => runsOut).length;
  const ranged = nodes.filter(({ addresses }) => addresses !== null && addresses !== undefined).length;
  if (!nodes.length) return "The cluster has no nodes yet.";
  if (!ranged) return "Pods get single addresses here: no node has a range of its own that could run out.";
  const of = `${nodes.length.toLocaleString("en")} ${nodes.length === 1 ? "node" : "nodes"}`;
  return short ? `${short.toLocaleString("en")} of ${of} ${short === 1 ? "runs" : "run"} out of addresses for Pods, now or before ${short === 1 ? "it is" : "they are"} full.` : `The addresses of all ${of} suffice for as many Pods as their kubelets admit.`;
}
