/** Texts as bytes. */

const ENCODER = new TextEncoder();

export function encoded(text: string): Uint8Array {
  return ENCODER.encode(text);
}

/** Return a text with one character for each byte of its UTF-8, since git compares bytes: `?` matches half an umlaut. */
export function bytewise(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text : Array.from(encoded(text), (byte) => String.fromCharCode(byte)).join("");
}

/** Return bytes as hexadecimal digits. */
export function hexadecimal(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
