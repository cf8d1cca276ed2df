/** The index of a Git checkout says which files are executable and which are links; a browser does not. */

export interface Modes {
  executable: ReadonlySet<string>;
  links: ReadonlySet<string>;
}

export const NO_MODES: Modes = { executable: new Set(), links: new Set() };

const EXECUTABLE = 0o100755;
const LINK = 0o120000;
/** Further modes of entries: files, sparse folders and submodules. */
const OTHERS: readonly number[] = [0o100644, 0o100664, 0o040000, 0o160000];
const MODE_AT = 24;
const FLAGS_AT = 60;
const IS_EXTENDED = 0x4000;

/** Return the modes in an index (gitformat-index(5), versions 2 to 4 with SHA-1); none if it has another format. */
export function modesOf(index: ArrayBuffer): Modes {
  const [view, bytes] = [new DataView(index), new Uint8Array(index)];
  const [executable, links] = [new Set<string>(), new Set<string>()];
  try {
    const version = view.getUint32(4);
    if (view.getUint32(0) !== 0x44495243 || version < 2 || version > 4) return NO_MODES;
    let at = 12;
    let name = new Uint8Array();
    for (let left = view.getUint32(8); left > 0; left--) {
      const mode = view.getUint32(at + MODE_AT);
      if (mode !== EXECUTABLE && mode !== LINK && !OTHERS.includes(mode)) return NO_MODES;
      let begin = at + FLAGS_AT + (view.getUint16(at + FLAGS_AT) & IS_EXTENDED ? 4 : 2);
      let kept = 0;
      if (version === 4) [kept, begin] = sharedLength(bytes, begin, name.length);
      const end = bytes.indexOf(0, begin);
      if (end < 0) return NO_MODES;
      name = Uint8Array.of(...name.subarray(0, kept), ...bytes.subarray(begin, end));
      // Until version 3 an entry ends with one to eight zeros, at a multiple of eight bytes.
      at = version === 4 ? end + 1 : at + ((end - at + 8) & ~7);
      if (mode === EXECUTABLE) executable.add(textOf(name));
      if (mode === LINK) links.add(textOf(name));
    }
  } catch (error) {
    if (error instanceof RangeError) return NO_MODES; // it ends too early
    throw error;
  }
  return { executable, links };
}

/** Return how much of the name before it a name begins with, and where the rest of it is: version 4 writes how much to cut off. */
function sharedLength(bytes: Uint8Array, at: number, length: number): [kept: number, begin: number] {
  let byte = bytes[at++] ?? 0;
  let cut = byte & 0x7f;
  while (byte & 0x80) {
    byte = bytes[at++] ?? 0;
    cut = ((cut + 1) << 7) | (byte & 0x7f);
  }
  return [Math.max(0, length - cut), at];
}

function textOf(name: Uint8Array): string {
  return new TextDecoder().decode(name);
}
