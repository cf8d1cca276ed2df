/** Addresses of the web in a program's output. The output is hostile text: an address is found in it, and never markup. */

/** A part of a text, by its first place and the place after its last. */
export interface Range {
  start: number;
  end: number;
}

/** Up to what quotes an address, and up to characters that turn the direction of text and so hide where an address leads. */
// eslint-disable-next-line no-control-regex
const ADDRESS = /(?<![a-z0-9_])https?:\/\/[^\s\x00-\x1f\x7f"'`<>\\^{}|\u200e\u200f\u202a-\u202e\u2066-\u2069]+/giu;
const LAST = new Set(".,;:!?*~…。、，；：！？");
const OPENING: Readonly<Record<string, string>> = { ")": "(", "]": "[", "）": "（", "」": "「", "』": "『", "】": "【" };
/** Longer ones are no addresses that a person opens. */
const MOST_LETTERS = 4_096;

/** Return where a text has http and https addresses, without the punctuation after them, in time linear in its length. */
export function linksIn(text: string): Range[] {
  if (!text.includes("://")) return [];
  const links: Range[] = [];
  for (const { 0: found, index: start } of text.matchAll(ADDRESS)) {
    if (found.length > MOST_LETTERS) continue;
    const address = withoutLast(found);
    if (isOpened(address)) links.push({ start, end: start + address.length });
  }
  return links;
}

/** Leave out punctuation at the end, and brackets there that close none of the address. */
function withoutLast(found: string): string {
  const open = new Map<string, number>();
  for (const letter of found) open.set(letter, (open.get(letter) ?? 0) + 1);
  let end = found.length;
  for (; end > 0; end--) {
    const last = found[end - 1] ?? "";
    const opening = OPENING[last];
    const isLoose = opening !== undefined && (open.get(last) ?? 0) > (open.get(opening) ?? 0);
    if (!LAST.has(last) && !isLoose) break;
    open.set(last, (open.get(last) ?? 0) - 1);
  }
  return found.slice(0, end);
}

/** Whether a browser opens the address and shows at once where it leads: the name of a user before it may pretend another host. */
function isOpened(address: string): boolean {
  if (!URL.canParse(address)) return false;
  const { hostname, username, password } = new URL(address);
  return !!hostname && !username && !password;
}

/** Return the parts of the text from `start` to `end` that are in the ranges and those that are not, in order. */
export function cut(start: number, end: number, ranges: readonly Range[]): (Range & { isIn: boolean })[] {
  const parts: (Range & { isIn: boolean })[] = [];
  const add = (from: number, to: number, isIn: boolean) => {
    if (from < to) parts.push({ start: from, end: to, isIn });
  };
  let place = start;
  for (const range of ranges) {
    if (range.end <= place) continue;
    if (range.start >= end) break;
    add(place, range.start, false);
    add(Math.max(place, range.start), Math.min(end, range.end), true);
    place = Math.min(end, range.end);
  }
  add(place, end, false);
  return parts;
}
