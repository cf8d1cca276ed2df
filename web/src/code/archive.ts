/** The format of an archive of code, byte for byte as `kajitori.codepack.layout` writes it: a tar file of GNU tar without owners, times and modes. */
import { bytewise, encoded } from "./bytes";

export const BLOCK = 512;
export const END = 2 * BLOCK;
export const MOST_FILES = 100_000;

/** A file, or an empty folder. */
export interface Entry {
  path: string;
  size: number;
  isFolder: boolean;
  isExecutable?: boolean;
}

/** An entry, and where it begins in the archive. */
export interface Placed<E extends Entry> {
  entry: E;
  offset: number;
  header: number;
}

export interface Layout<E extends Entry> {
  placed: readonly Placed<E>[];
  /** Size of the archive in bytes. */
  size: number;
}

/** Return the place of each entry in the archive: entries are sorted by the bytes of their paths. */
export function layoutOf<E extends Entry>(entries: readonly E[]): Layout<E> {
  const named = entries.map((entry) => [bytewise(entry.path), entry] as const).sort(([a], [b]) => (a < b ? -1 : 1));
  let offset = 0;
  const placed = named.map(([, entry]) => {
    const header = headerOf(entry).length;
    const found = { entry, offset, header };
    offset += header + entry.size + paddingOf(entry.size);
    return found;
  });
  return { placed, size: offset + END };
}

/** Return the number of zeros that follow content of this size. */
export function paddingOf(size: number): number {
  return -size & (BLOCK - 1);
}

/** Return the blocks before the content of an entry. */
export function headerOf({ path, size, isFolder, isExecutable }: Entry): Uint8Array {
  const name = encoded(isFolder ? `${path}/` : path);
  const own = block(name.subarray(0, 100), isFolder || isExecutable ? 0o755 : 0o644, size, isFolder ? "5" : "0");
  if (name.length <= 100) return own;
  const text = new Uint8Array(name.length + 1);
  text.set(name);
  return joined([block(encoded("././@LongLink"), 0, text.length, "L"), text, new Uint8Array(paddingOf(text.length)), own]);
}

function block(name: Uint8Array, mode: number, size: number, kind: string): Uint8Array {
  const bytes = new Uint8Array(BLOCK);
  const put = (at: number, text: string) => bytes.set(encoded(text), at);
  bytes.set(name);
  put(100, `${octal(mode, 7)}\0${octal(0, 7)}\0${octal(0, 7)}\0${octal(size, 11)}\0${octal(0, 11)}\0`);
  put(148, "        ");
  put(156, kind);
  put(257, "ustar  \0");
  const sum = bytes.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)}\0`);
  return bytes;
}

function octal(value: number, digits: number): string {
  return value.toString(8).padStart(digits, "0");
}

/** Return several arrays as one. */
export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const RAW_BLOCK = 1 << 17;

/** Return bytes as a Zstandard frame that stores them as they are, for browsers that cannot compress. */
export function frameOf(part: Uint8Array): Uint8Array {
  const head = new Uint8Array(9);
  const view = new DataView(head.buffer);
  view.setUint32(0, 0xfd2fb528, true);
  view.setUint8(4, 0xa0); // one segment, with its size in four bytes
  view.setUint32(5, part.length, true);
  const pieces: Uint8Array[] = [head];
  for (let at = 0; at < part.length; at += RAW_BLOCK) {
    const piece = part.subarray(at, at + RAW_BLOCK);
    const isLast = at + RAW_BLOCK >= part.length;
    const header = (piece.length << 3) | Number(isLast);
    pieces.push(Uint8Array.of(header & 255, (header >> 8) & 255, header >> 16), piece);
  }
  return joined(pieces);
}
