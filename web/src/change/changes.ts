/** Changes of a run that waits or runs: its limits, its priority, and the members of a sweep. */
import type { Schemas } from "../api/client";
import { lineOf } from "../words/commands";

/** The fields as texts of a form. An empty text stands for the policy's default. */
export interface Changeable {
  timeLimit: string;
  priority: string;
  restarts: string;
  /** Of a sweep: its indices, and how many of them run at once. */
  array: string;
}

type Spec = Pick<Schemas["RunSpec"], "timeLimit" | "priority" | "restarts" | "array">;
/** What the server is asked for. It checks the texts. */
type Body = Schemas["UpdateRequest"];

export const FIELDS = ["timeLimit", "priority", "restarts", "array"] as const;
const OPTIONS: Readonly<Record<keyof Changeable, string>> = { timeLimit: "--time-limit", priority: "--priority", restarts: "--restarts", array: "--array" };

/** Return the fields of a run as its spec has them. */
export function changeableOf({ timeLimit, priority, restarts, array }: Spec): Changeable {
  return { timeLimit: timeLimit?.toString() ?? "", priority: priority ?? "", restarts: restarts?.toString() ?? "", array: array ?? "" };
}

/** Return the fields that differ, for the server. null removes a field. */
export function bodyOf(before: Changeable, after: Changeable): Body {
  const body: Record<string, string | number | null> = {};
  for (const field of FIELDS) {
    const text = after[field].trim();
    if (text === before[field]) continue;
    body[field] = text === "" ? null : field === "restarts" && /^\d+$/.test(text) ? Number(text) : text;
  }
  return body as Body;
}

/** Return the `kaji` command that makes the same change. */
export function commandOf(namespace: string, name: string, before: Changeable, after: Changeable): string {
  const body = bodyOf(before, after);
  const options = Object.fromEntries(
    FIELDS.filter((field) => body[field] !== undefined).map((field) => [OPTIONS[field], `${body[field] ?? "default"}`]),
  );
  return lineOf("update", { ...options, "-N": namespace }, [name]);
}
