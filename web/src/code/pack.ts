/** A folder as an archive with its digest, read in parts. */
import { sha256 } from "@noble/hashes/sha2.js";
import { headerOf, joined, layoutOf, paddingOf, type Layout } from "./archive";
import { hexadecimal } from "./bytes";
import { contentOf, type FoundFile } from "./folder";

const CHUNK = 1 << 20;

export interface Pack {
  /** `sha256:` and the SHA-256 of the archive. */
  digest: string;
  size: number;
  files: number;
  /** Return a piece of the archive. */
  read: (start: number, length: number) => Promise<Uint8Array>;
}

/** Return the archive of files. `progress` is called with the share that was read. */
export async function packed(entries: readonly FoundFile[], signal: AbortSignal, progress: (share: number) => void): Promise<Pack> {
  const layout = layoutOf(entries);
  const hash = sha256.create();
  for (let at = 0; at < layout.size; at += CHUNK) {
    signal.throwIfAborted();
    hash.update(await piece(layout, at, CHUNK));
    progress(Math.min(1, (at + CHUNK) / layout.size));
  }
  return {
    digest: `sha256:${hexadecimal(hash.digest())}`,
    size: layout.size,
    files: entries.length,
    read: (start, length) => piece(layout, start, length),
  };
}

export function digestOf(bytes: Uint8Array): string {
  return hexadecimal(sha256(bytes));
}

async function piece({ placed, size }: Layout<FoundFile>, start: number, length: number): Promise<Uint8Array> {
  const end = Math.min(start + length, size);
  const found: Uint8Array[] = [];
  const take = async (from: number, until: number, read: (a: number, b: number) => Uint8Array | Promise<Uint8Array>) => {
    const [a, b] = [Math.max(start, from), Math.min(end, until)];
    if (a < b) found.push(await read(a - from, b - from));
  };
  for (let index = firstAt(placed, start); index < placed.length; index++) {
    const item = placed[index];
    if (!item || item.offset >= end) break;
    const { entry, offset, header } = item;
    const content = offset + header;
    const after = content + entry.size;
    await take(offset, content, (a, b) => headerOf(entry).subarray(a, b));
    await take(content, after, async (a, b) => new Uint8Array(await contentOf(entry, a, b)));
    await take(after, after + paddingOf(entry.size), (a, b) => new Uint8Array(b - a));
  }
  const have = found.reduce((sum, { length: bytes }) => sum + bytes, 0);
  return joined([...found, new Uint8Array(end - start - have)]);
}

/** Return the index of the last entry that begins at or before a position. */
function firstAt(placed: Layout<FoundFile>["placed"], start: number): number {
  let [low, high] = [0, placed.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((placed[middle]?.offset ?? 0) <= start) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}
