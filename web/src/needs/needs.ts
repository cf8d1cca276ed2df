/** Values of new secrets, and words about what runs need. */

/** A key of a new secret, and its value: typed, or the content of a file. */
export interface Entry {
  key: string;
  value: string | Uint8Array;
}

/** Return the values of a new secret as the server takes them: in base64, by key. */
export function dataOf(entries: readonly Entry[]): Record<string, string> {
  return Object.fromEntries(entries.map(({ key, value }) => [key.trim(), base64Of(typeof value === "string" ? new TextEncoder().encode(value) : value)]));
}

function base64Of(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

/** Return what uses a volume or a secret, in words. */
export function usersInWords(runs: readonly string[]): string {
  const [first, ...others] = runs;
  if (!first) return "";
  return others.length ? `used by ${first} and ${others.length} more` : `used by ${first}`;
}
