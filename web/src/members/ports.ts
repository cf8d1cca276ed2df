/** Where members listen. */
import type { Member } from "../api/client";

/** Return the running members that have an address, by rank. */
export function listening(members: readonly Member[]): Member[] {
  return members.filter(({ phase, address }) => phase === "Running" && address).sort((a, b) => a.rank - b.rank);
}

/** Return a port at an address, which may be one of IPv6. */
export function addressOf(address: string, port: number): string {
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Return the path at which the server shows what a member serves at a port. */
export function programOf({ namespace, name }: { namespace: string; name: string }, port: number, rank: number): string {
  return `/proxy/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/${rank ? `${port}-${rank}` : port}/`;
}
