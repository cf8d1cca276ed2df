/** The form that starts a run, and the request that it makes. All fields are texts, as a person types them. */
import { join } from "shlex";
import type { Fault, Refused, Run, Schemas } from "../api/client";
import { afterLine, afterOf, envOf, filled, healthLine, healthOf, hiddenEnv, isOpen, labelLines, labelsOf, linesOf, numberOf, rangeOf, secretLine, secretOf, shownEnv, text, volumeLine, volumeOf, wordsOf } from "./lines";

export type Spec = Schemas["RunSpec"];

/** What the form starts. A service is a run here: only copies and templates are services. */
export const KINDS = ["run", "sweep", "notebook"] as const;
export type Kind = (typeof KINDS)[number];

export interface Form {
  kind: Kind;
  name: string;
  namespace: string;
  image: string;
  /** The image of a notebook, which needs none: policy has one. */
  notebookImage: string;
  command: string;
  env: string;
  members: string;
  /** Indices of a sweep. */
  array: string;
  stopAt: string;
  gpus: string;
  gpuType: string;
  cpus: string;
  memory: string;
  volumes: string;
  secrets: string;
  checkpoint: string;
  /** Command of the health check. */
  health: string;
  restarts: string;
  timeLimit: string;
  priority: string;
  launcher: string;
  after: string;
  labels: string;
}

/** The names of the fields in which a person writes. */
export type FieldName = Exclude<keyof Form, "kind">;

export const EMPTY: Form = {
  kind: "run",
  name: "",
  namespace: "",
  image: "",
  notebookImage: "",
  command: "",
  env: "",
  members: "",
  array: "",
  stopAt: "",
  gpus: "",
  gpuType: "",
  cpus: "",
  memory: "",
  volumes: "",
  secrets: "",
  checkpoint: "",
  health: "",
  restarts: "",
  timeLimit: "",
  priority: "",
  launcher: "",
  after: "",
  labels: "",
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
  labels?: Record<string, string>;
  spec: Record<string, unknown>;
}

/** Fields of a request, by the beginning of their path, and the field of the form that shows them. The first one that fits counts. */
const FIELDS: readonly (readonly [string, FieldName])[] = [
  ["name", "name"],
  ["namespace", "namespace"],
  ["labels", "labels"],
  ["spec.labels", "labels"],
  ["spec.image", "image"],
  ["spec.array", "array"],
  ["spec.stopAt", "stopAt"],
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
  ["spec.health", "health"],
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

/** Fields that a run, a sweep or a notebook does not have. */
const NOT_OF: Record<Kind, readonly FieldName[]> = {
  run: ["array", "stopAt", "notebookImage"],
  sweep: ["members", "launcher", "notebookImage"],
  notebook: ["image", "command", "members", "array", "stopAt", "launcher", "health", "restarts", "after"],
};

/** Fields that a notebook from the command line or from a template may have, and its copies with it. */
const OF_SOME_NOTEBOOKS: readonly FieldName[] = ["command", "health", "restarts", "after"];

/** Whether the form shows a field. What it does not show is not sent. */
export function isOffered({ form, base }: Draft, name: FieldName): boolean {
  if (!NOT_OF[form.kind].includes(name)) return true;
  return base.type === "notebook" && form.kind === "notebook" && OF_SOME_NOTEBOOKS.includes(name) && form[name] !== "";
}

/** Return the draft with the team in which its run starts if the form names none: the person's only one, if they may not start runs in the server's default namespace. `isChosen` is false if the person has to choose one. */
export function withTeam(draft: Draft, teams: readonly string[], usual: string): { draft: Draft; isChosen: boolean } {
  const { form } = draft;
  if (form.namespace.trim() || !teams.length || !usual || teams.includes(usual)) return { draft, isChosen: true };
  const [only = "", ...others] = teams;
  return others.length ? { draft, isChosen: false } : { draft: { ...draft, form: { ...form, namespace: only } }, isChosen: true };
}

/** What still has to be filled in before the server can be asked about the run; empty if nothing has. */
export function missingIn(draft: Draft): string {
  const { form } = draft;
  if (form.kind === "notebook" && !form.notebookImage.trim()) return "Name an image with JupyterLab to begin with.";
  if (form.kind !== "notebook" && !form.image.trim()) return "Name an image to begin with.";
  if (form.kind === "sweep" && !form.array.trim()) return "Write the indices of the sweep, such as 0-9.";
  return isOffered(draft, "command") && isOpen(form.command) ? "Close the quotes in the command, and write no \\ at its end." : "";
}

/** What a notebook has if the form does not say it. */
export interface NotebookDefaults {
  name: string;
  image: string;
  folder: string;
  /** Empty if policy has none. */
  timeLimit: string;
}

/** Return the draft with what `kaji notebook` fills in. Other drafts are returned unchanged. */
export function withNotebookDefaults(draft: Draft, { name, image }: Pick<NotebookDefaults, "name" | "image">): Draft {
  const { form } = draft;
  if (form.kind !== "notebook") return draft;
  return { ...draft, form: { ...form, name: form.name.trim() || name, notebookImage: form.notebookImage.trim() || image } };
}

/** Return the name of a person's notebook that has no other name, as `kaji notebook` makes it; with a number if they have one of that name already. */
export function notebookName(user: string, taken: readonly string[]): string {
  const person = user.toLowerCase().replace(/^.*:/, "").replace(/@.*$/, "");
  const own = person.replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "");
  const name = `notebook-${own}`.slice(0, MOST_LETTERS).replace(/-+$/, "");
  if (!taken.includes(name)) return name;
  let number = 2;
  while (taken.includes(`${name}-${number}`)) number += 1;
  return `${name}-${number}`;
}

const MOST_LETTERS = 48;

/** Return the form for another run like this one, or of a template. It has no name, since names are used once. */
export function draftOf({ spec, namespace }: Pick<Run, "spec" | "namespace">): Draft {
  const { resources } = spec;
  const fewest = spec.minReplicas;
  const kind: Kind = spec.type === "notebook" ? "notebook" : spec.array ? "sweep" : "run";
  const form: Form = {
    kind,
    name: "",
    namespace,
    image: kind === "notebook" ? "" : (spec.image ?? ""),
    notebookImage: kind === "notebook" ? (spec.image ?? "") : "",
    command: join([...(spec.command ?? []), ...(spec.args ?? [])]),
    env: shownEnv(spec.env).join("\n"),
    members: fewest ? `${fewest}-${spec.replicas ?? 1}` : text(spec.replicas, 1),
    array: spec.array ?? "",
    stopAt: spec.stopAt ?? "",
    gpus: text(resources?.gpu, 0),
    gpuType: resources?.gpuType ?? "",
    cpus: text(resources?.cpu),
    memory: text(resources?.memory),
    volumes: (spec.volumes ?? []).map(volumeLine).join("\n"),
    secrets: (spec.secrets ?? []).map(secretLine).join("\n"),
    checkpoint: spec.checkpoint?.path ?? "",
    health: healthLine(spec.health),
    restarts: text(spec.restarts),
    timeLimit: text(spec.timeLimit),
    priority: spec.priority ?? "",
    launcher: spec.launcher === "none" ? "" : (spec.launcher ?? ""),
    after: (spec.after ?? []).map(afterLine).join("\n"),
    labels: labelLines(spec.labels),
  };
  return { form, base: spec };
}

/** Return the request that a form makes. Texts that cannot be read are sent as they are, so that the server says what is wrong with them. */
export function requestOf(draft: Draft): Request {
  const { base } = draft;
  const { stopped, parked, keepIdleUntil, resumes, stopGrace, command, type, stuckAfter, onStuck, ...kept } = base;
  const form = shownIn(draft);
  const isNotebook = form.kind === "notebook";
  const labels = labelsOf(form.labels);
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
    ...(form.kind === "run" && { stuckAfter, onStuck }), // only gangs are watched for hangs
    type: isNotebook ? "notebook" : type === "notebook" ? undefined : type,
    image: (isNotebook ? form.notebookImage : form.image).trim(),
    // With an entrypoint of its own, a run keeps it.
    command: command?.length ? words.slice(0, command.length) : undefined,
    args: command?.length ? words.slice(command.length) : words,
    env: { ...hiddenEnv(base.env), ...envOf(form.env) },
    replicas: most,
    minReplicas: fewest,
    array: form.array.trim(),
    stopAt: form.stopAt,
    resources,
    volumes: linesOf(form.volumes).map(volumeOf),
    secrets: linesOf(form.secrets).map(secretOf),
    checkpoint: path ? { ...base.checkpoint, path } : undefined,
    health: healthOf(form.health, base.health),
    restarts: numberOf(form.restarts),
    timeLimit: form.timeLimit.trim(),
    priority: form.priority,
    launcher: form.launcher,
    after: linesOf(form.after).map(afterOf),
    labels,
  });
  const name = form.name.trim();
  const namespace = form.namespace.trim();
  return { ...(name && { name }), ...(namespace && { namespace }), ...(Object.keys(labels).length && { labels }), spec };
}

/** The form without the contents of fields that it does not show. */
function shownIn(draft: Draft): Form {
  const hidden = NOT_OF[draft.form.kind].filter((name) => !isOffered(draft, name));
  return { ...draft.form, ...Object.fromEntries(hidden.map((name) => [name, ""])) };
}

/** Return the draft with uploaded code; without code if the digest is empty. */
export function withCode({ form, base }: Draft, digest: string): Draft {
  const { code, ...rest } = base;
  return { form, base: digest ? { ...rest, code: { ...code, digest } as NonNullable<Spec["code"]> } : rest };
}

