/** The form that starts a run, and the request that it makes. All fields are texts, as a person types them. */
import { join, split } from "shlex";
import type { Fault, Refused, Run, Schemas } from "../api/client";

export type Spec = Schemas["RunSpec"];

export interface Form {
  name: string;
  namespace: string;
  image: string;
  command: string;
  env: string;
  members: string;
  gpus: string;
  gpuType: string;
  cpus: string;
  memory: string;
  volumes: string;
  secrets: string;
  checkpoint: string;
  restarts: string;
  timeLimit: string;
  priority: string;
  launcher: string;
  after: string;
}

export type FieldName = keyof Form;

export const EMPTY: Form = {
  name: "",
  namespace: "",
  image: "",
  command: "",
  env: "",
  members: "",
  gpus: "",
  gpuType: "",
  cpus: "",
  memory: "",
  volumes: "",
  secrets: "",
  checkpoint: "",
  restarts: "",
  timeLimit: "",
  priority: "",
  launcher: "",
  after: "",
};

/** A form, and the spec that it began with: fields that the form does not show stay as they are there. */
export interface Draft {
  form: Form;
  base: Partial<Spec>;
}

/** The contents of the form. `spec` holds a text in place of a number if the person wrote something that is not a number. */
export interface Request {
  name?: string;
  namespace?: string;
  spec: Record<string, unknown>;
}

/** Fields of a request, by the beginning of their path, and the field of the form that shows them. The first one that fits counts. */
const FIELDS: readonly (readonly [string, FieldName])[] = [
  ["name", "name"],
  ["namespace", "namespace"],
  ["spec.image", "image"],
  ["spec.command", "command"],
  ["spec.args", "command"],
  ["spec.env", "env"],
  ["spec.replicas", "members"],
  ["spec.minReplicas", "members"],
  ["spec.resources.gpuType", "gpuType"],
  ["spec.resources.gpu", "gpus"],
  ["spec.resources.cpu", "cpus"],
  ["spec.resources.memory", "memory"],
  ["spec.volumes", "volumes"],
  ["spec.secrets", "secrets"],
  ["spec.checkpoint", "checkpoint"],
  ["spec.restarts", "restarts"],
  ["spec.timeLimit", "timeLimit"],
  ["spec.priority", "priority"],
  ["spec.launcher", "launcher"],
  ["spec.after", "after"],
];

/** Return the field of the form that shows a field of the request; null if none does. */
export function fieldOf(path: string): FieldName | null {
  const fits = (start: string) => path === start || path.startsWith(`${start}.`) || path.startsWith(`${start}[`);
  return FIELDS.find(([start]) => fits(start))?.[1] ?? null;
}

/** Return the faults of a refusal by their fields: a name that is taken is one of the field with the name. */
export function faultsOf({ code, message, hint, faults }: Pick<Refused, "code" | "message" | "hint" | "faults">): readonly Fault[] {
  return code === "AlreadyExists" ? [{ field: "name", message, hint }] : faults;
}

/** Return the form for another run like this one, or of a template. It has no name, since names are used once. */
export function draftOf({ spec, namespace }: Pick<Run, "spec" | "namespace">): Draft {
  const { resources } = spec;
  const fewest = spec.minReplicas;
  const form: Form = {
    name: "",
    namespace,
    image: spec.image ?? "",
    command: join([...(spec.command ?? []), ...(spec.args ?? [])]),
    env: shownEnv(spec.env).join("\n"),
    members: fewest ? `${fewest}-${spec.replicas ?? 1}` : text(spec.replicas, 1),
    gpus: text(resources?.gpu, 0),
    gpuType: resources?.gpuType ?? "",
    cpus: text(resources?.cpu),
    memory: text(resources?.memory),
    volumes: (spec.volumes ?? []).map(volumeLine).join("\n"),
    secrets: (spec.secrets ?? []).map(secretLine).join("\n"),
    checkpoint: spec.checkpoint?.path ?? "",
    restarts: text(spec.restarts),
    timeLimit: text(spec.timeLimit),
    priority: spec.priority ?? "",
    launcher: spec.launcher === "none" ? "" : (spec.launcher ?? ""),
    after: (spec.after ?? []).map(afterLine).join("\n"),
  };
  return { form, base: spec };
}

/** Return the request that a form makes. Texts that cannot be read are sent as they are, so that the server says what is wrong with them. */
export function requestOf({ form, base }: Draft): Request {
  const { stopped, resumes, stopGrace, command, ...kept } = base;
  const words = wordsOf(form.command);
  const [fewest, most] = rangeOf(form.members);
  const resources = filled({
    ...base.resources,
    gpu: numberOf(form.gpus),
    gpuType: form.gpuType.trim(),
    cpu: form.cpus.trim(),
    memory: form.memory.trim(),
  });
  const path = form.checkpoint.trim();
  const spec = filled({
    ...kept,
    image: form.image.trim(),
    // With an entrypoint of its own, a run keeps it.
    command: command?.length ? words.slice(0, command.length) : undefined,
    args: command?.length ? words.slice(command.length) : words,
    env: { ...hiddenEnv(base.env), ...envOf(form.env) },
    replicas: most,
    minReplicas: fewest,
    resources,
    volumes: linesOf(form.volumes).map(volumeOf),
    secrets: linesOf(form.secrets).map(secretOf),
    checkpoint: path ? { ...base.checkpoint, path } : undefined,
    restarts: numberOf(form.restarts),
    timeLimit: form.timeLimit.trim(),
    priority: form.priority,
    launcher: form.launcher,
    after: linesOf(form.after).map(afterOf),
  });
  const name = form.name.trim();
  const namespace = form.namespace.trim();
  return { ...(name && { name }), ...(namespace && { namespace }), spec };
}

/** Return the draft with uploaded code; without code if the digest is empty. */
export function withCode({ form, base }: Draft, digest: string): Draft {
  const { code, ...rest } = base;
  return { form, base: digest ? { ...rest, code: { ...code, digest } as NonNullable<Spec["code"]> } : rest };
}

function text(value: unknown, left: string | number | null = null): string {
  return value === null || value === undefined || value === left ? "" : `${value}`;
}

/** Return a number; another text unchanged; undefined if it is empty. */
function numberOf(typed: string): number | string | undefined {
  const word = typed.trim();
  if (!word) return undefined;
  return /^\d{1,15}$/.test(word) ? Number(word) : word;
}

/** Return the fewest and the most members: "8-32", or one number for both, of which only the second is given. */
function rangeOf(typed: string): [number | undefined, number | string | undefined] {
  const range = /^\s*(\d{1,9})\s*-\s*(\d{1,9})\s*$/.exec(typed);
  return range ? [Number(range[1]), Number(range[2])] : [undefined, numberOf(typed)];
}

/** Return the words of a command as a shell would split it; the text as one word while a quote is open. */
export function wordsOf(command: string): string[] {
  try {
    return split(command);
  } catch {
    return [command];
  }
}

function linesOf(typed: string): string[] {
  return typed
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
}

/** Return another run to wait for as it is typed: "prepare", or "fetch:ended". */
function afterLine({ run, condition }: NonNullable<Spec["after"]>[number]): string {
  return condition && condition !== "succeeded" ? `${run}:${condition}` : run;
}

function afterOf(line: string): Record<string, string> {
  const [run = "", ...condition] = line.split(":");
  return condition.length ? { run, condition: condition.join(":") } : { run };
}

function shownEnv(env: Spec["env"]): string[] {
  return Object.entries(env ?? {})
    .filter(([, value]) => !value.includes("\n"))
    .map(([name, value]) => `${name}=${value}`);
}

/** Variables with several lines, which the form does not show. */
function hiddenEnv(env: Spec["env"]): Record<string, string> {
  return Object.fromEntries(Object.entries(env ?? {}).filter(([, value]) => value.includes("\n")));
}

function envOf(typed: string): Record<string, string> {
  const pairs = typed.split("\n").filter((line) => line.trim());
  return Object.fromEntries(
    pairs.map((line) => {
      const at = line.indexOf("=");
      return at < 0 ? [line.trim(), ""] : [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

type Volume = Schemas["VolumeUse"];
type Secret = Schemas["SecretUse"];

function volumeLine(use: Volume): string {
  return `${use.hostPath ?? use.name ?? ""}:${use.path}${use.readOnly ? ":ro" : ""}`;
}

function volumeOf(line: string): Record<string, unknown> {
  const [source = "", path = "", mode] = line.split(":");
  return {
    ...(source.startsWith("/") ? { hostPath: source } : { name: source }),
    path,
    ...(mode === "ro" && { readOnly: true }),
  };
}

function secretLine(use: Secret): string {
  if (use.env) return `${use.env}=${use.name}/${use.key}`;
  return use.path ? `${use.name}:${use.path}` : use.name;
}

function secretOf(line: string): Record<string, unknown> {
  const [variable, rest] = line.split("=", 2);
  if (rest !== undefined) {
    const [name, key] = rest.split("/", 2);
    return { name, ...(key !== undefined && { key }), env: variable };
  }
  const [name, path] = line.split(":", 2);
  return path === undefined ? { name } : { name, path };
}

/** Return an object without fields that are empty. */
function filled(fields: Record<string, unknown>): Record<string, unknown> {
  const isEmpty = (value: unknown) =>
    value === undefined ||
    value === null ||
    value === "" ||
    (typeof value === "object" && !Object.keys(value as object).length);
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => !isEmpty(value)));
}
