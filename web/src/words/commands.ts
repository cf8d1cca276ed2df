/** Lines for a terminal that ask what a page asks. */
import { quote } from "shlex";

/** Return a `kaji` command with those of these options that have a value, and further words. */
export function lineOf(verb: string, options: Readonly<Record<string, string>>, more: readonly string[] = []): string {
  const given = Object.entries(options).flatMap(([option, value]) => (value ? [option, value] : []));
  return ["kaji", ...verb.split(" "), ...[...given, ...more].map(quoted)].join(" ");
}

/** Return a word as a shell takes it; names, times and paths stay as they are. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : quote(word);
}
