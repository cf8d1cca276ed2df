/** Files that stay out of an archive: `.gitignore` as git reads it, and `.kajiignore`, which has precedence. The same as `kajitori.codepack.ignoring`, as far as a browser sees the folder. */
import { bytewise } from "./bytes";

export const GIT_FOLDER = ".git";
export const IGNORE_FILES = [".gitignore", ".kajiignore"] as const;

interface Rule {
  excludes: boolean;
  pattern: RegExp;
}

/** The rules of one folder's ignore files; the last one that matches decides. */
export type Rules = readonly Rule[];

/** Return the rules in the lines of a folder's ignore files. Lines that git does not understand are left out. */
export function rulesOf(texts: readonly string[]): Rules {
  return texts
    .flatMap((text) => bytewise(text.replace(/^\uFEFF/, "")).split("\n"))
    .flatMap((line) => ruleOf(line.replace(/\r$/, "")) ?? [])
    .reverse();
}

/** Rules that apply in a folder, the nearest first, each with the length of the path of the folder that has them. */
export type Ignoring = readonly { begin: number; rules: Rules }[];

/** Return the rules in a subfolder with rules of its own. `path` is relative to the top and ends with a slash; for the top it is empty. */
export function entered(ignoring: Ignoring, path: string, rules: Rules): Ignoring {
  return rules.length ? [{ begin: bytewise(path).length, rules }, ...ignoring] : ignoring;
}

/** Whether an entry stays out. `path` is relative to the top; that of a folder ends with a slash. */
export function excludes(ignoring: Ignoring, path: string): boolean {
  const whole = bytewise(path);
  for (const { begin, rules } of ignoring) {
    const rule = rules.find(({ pattern }) => pattern.test(whole.slice(begin)));
    if (rule) return rule.excludes;
  }
  return false;
}

function ruleOf(line: string): Rule | null {
  let text = line.replace(/(?<!\\) +$/, "");
  if (!text || text.startsWith("#")) return null;
  const isIncluded = text.startsWith("!");
  if (isIncluded) text = text.slice(1);
  const folderOnly = text.endsWith("/");
  if (folderOnly) text = text.slice(0, -1);
  if (!text || text === "/") return null;
  const isAnchored = text.includes("/");
  const source = expressionOf(text.replace(/^\//, ""));
  if (source === null) return null;
  try {
    const pattern = new RegExp(`^${isAnchored ? "" : "(?:.*/)?"}${source}${folderOnly ? "/" : "/?"}$`, "s");
    return { excludes: !isIncluded, pattern };
  } catch {
    return null;
  }
}

/** Return a pattern's regular expression; null for a pattern that matches nothing. */
function expressionOf(pattern: string): string | null {
  const names = pattern.split("/");
  let source = "";
  for (const [place, name] of names.entries()) {
    const isLast = place === names.length - 1;
    if (name === "**") {
      // Alone it is any name at any depth; at the end everything below, but not the folder itself.
      source += isLast ? "[^/]+(?:/[^/]+)*" : "(?:[^/]+/)*";
      continue;
    }
    const part = nameOf(name);
    if (part === null) return null;
    source += isLast ? part : `${part}/`;
  }
  return source;
}

function nameOf(name: string): string | null {
  let source = "";
  for (let at = 0; at < name.length; at++) {
    const sign = name.charAt(at);
    if (sign === "*") {
      while (name[at + 1] === "*") at++;
      source += "[^/]*";
    } else if (sign === "?") source += "[^/]";
    else if (sign === "[") {
      const set = setOf(name, at);
      if (!set) return null;
      source += set.source;
      at = set.end;
    } else if (sign === "\\") {
      if (++at >= name.length) return null;
      source += quoted(name.charAt(at));
    } else source += quoted(sign);
  }
  return source;
}

const CLASSES: Record<string, string> = {
  alnum: "a-zA-Z0-9",
  alpha: "a-zA-Z",
  blank: " \\t",
  digit: "0-9",
  lower: "a-z",
  space: "\\s",
  upper: "A-Z",
  xdigit: "a-fA-F0-9",
};

/** Return the expression of the set of characters that begins at a bracket, and where it ends. */
function setOf(name: string, begin: number): { source: string; end: number } | null {
  let at = begin + 1;
  const isNegated = name[at] === "!" || name[at] === "^";
  if (isNegated) at++;
  let source = "";
  for (let isFirst = true; at < name.length; at++, isFirst = false) {
    const sign = name.charAt(at);
    const known = /^\[:([a-z]+):\]/.exec(name.slice(at));
    if (known) {
      source += CLASSES[known[1] ?? ""] ?? "";
      at += known[0].length - 1;
    } else if (sign === "]" && !isFirst) return { source: `(?!/)[${isNegated ? "^" : ""}${source}]`, end: at };
    else if (sign === "\\") source += `\\${name.charAt(++at)}`;
    else if (sign === "-") source += "-";
    else source += quoted(sign);
  }
  return null;
}

function quoted(sign: string): string {
  return /[\w\s]/.test(sign) || sign > "\x7f" ? sign : `\\${sign}`;
}
