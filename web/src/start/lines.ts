/** Texts of the form's fields, and the parts of a spec that they stand for: one item a line. */
import { join, split } from "shlex";
import type { Schemas } from "../api/client";
import type { Spec } from "./form";

export function text(value: unknown, left: string | number | null = null): string {
  return value === null || value === undefined || value === left ? "" : `${value}`;
}

/** Return a number; another text unchanged; undefined if it is empty. */
export function numberOf(typed: string): number | string | undefined {
  const word = typed.trim();
  if (!word) return undefined;
  return /^\d{1,15}$/.test(word) ? Number(word) : word;
}

/** Return the fewest and the most members: "8-32", or one number for both, of which only the second is given. */
export function rangeOf(typed: string): [number | undefined, number | string | undefined] {
  const range = /^\s*(\d{1,9})\s*-\s*(\d{1,9})\s*$/.exec(typed);
  return range ? [Number(range[1]), Number(range[2])] : [undefined, numberOf(typed)];
}

/** Return the words of a command as a shell would split it; the text as one word while `isOpen`. */
export function wordsOf(command: string): string[] {
  try {
    return split(command);
  } catch {
    return [command];
  }
}

/** Whether a command ends within quotes, or with a backslash that belongs to a letter that is not there yet. */
export function isOpen(command: string): boolean {
  try {
    split(command);
    return false;
  } catch {
    return true;
  }
}

export function linesOf(typed: string): string[] {
  return typed
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Return another run to wait for as it is typed: "prepare", or "fetch:ended". */
export function afterLine({ run, condition }: NonNullable<Spec["after"]>[number]): string {
  return condition && condition !== "succeeded" ? `${run}:${condition}` : run;
}

export function afterOf(line: string): Record<string, string> {
  const [run = "", ...condition] = line.split(":");
  return condition.length ? { run, condition: condition.join(":") } : { run };
}

type Health = Spec["health"];

/** Return the command of a health check as it is typed. One without a shell is shown as words. */
export function healthLine(health: Health): string {
  const { command } = health ?? {};
  return typeof command === "string" ? command : join(command ?? []);
}

/** Return a health check with this command, and with the times of the one that the form began with. */
export function healthOf(typed: string, before: Health): Record<string, unknown> | undefined {
  if (!typed.trim()) return undefined;
  return before && typed === healthLine(before) ? before : { ...before, command: typed.trim() };
}

export function shownEnv(env: Spec["env"]): string[] {
  return Object.entries(env ?? {})
    .filter(([, value]) => !value.includes("\n"))
    .map(([name, value]) => `${name}=${value}`);
}

/** Variables with several lines, which the form does not show. */
export function hiddenEnv(env: Spec["env"]): Record<string, string> {
  return Object.fromEntries(Object.entries(env ?? {}).filter(([, value]) => value.includes("\n")));
}

export function envOf(typed: string): Record<string, string> {
  const pairs = typed.split("\n").filter((line) => line.trim());
  return Object.fromEntries(
    pairs.map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

/** Return labels as they are typed, one a line. */
export function labelLines(labels: Spec["labels"]): string {
  return Object.entries(labels ?? {})
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");
}

/** Return the labels of these lines. A label without a value has an empty one, as in docker run. */
export function labelsOf(typed: string): Record<string, string> {
  return Object.fromEntries(Object.entries(envOf(typed)).map(([key, value]) => [key, value.trim()]));
}

type Volume = Schemas["VolumeUse"];
type Secret = Schemas["SecretUse"];

export function volumeLine(use: Volume): string {
  return `${use.hostPath ?? use.name ?? ""}:${use.path}${use.readOnly ? ":ro" : ""}`;
}

export function volumeOf(line: string): Record<string, unknown> {
  const [source = "", path = "", mode] = line.split(":");
  return {
    ...(source.startsWith("/") ? { hostPath: source } : { name: source }),
    path,
    ...(mode === "ro" && { readOnly: true }),
  };
}

export function secretLine(use: Secret): string {
  if (use.env) return `${use.env}=${use.name}/${use.key}`;
  return use.path ? `${use.name}:${use.path}` : use.name;
}

export function secretOf(line: string): Record<string, unknown> {
  const [variable, rest] = line.split("=", 2);
  if (rest !== undefined) {
    const [name, key] = rest.split("/", 2);
    return { name, ...(key !== undefined && { key }), env: variable };
  }
  const [name, path] = line.split(":", 2);
  return path === undefined ? { name } : { name, path };
}

/** Return an object without fields that are empty. */
export function filled(fields: Record<string, unknown>): Record<string, unknown> {
  const isEmpty = (value: unknown) =>
    value === undefined ||
    value === null ||
    value === "" ||
    (typeof value === "object" && !Object.keys(value as object).length);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
}
