/** Suggestions below the fields of the form: volumes, secrets, checkpoints and images that exist. */
import type { Schemas } from "../../api/client";
import type { Secret, Volume } from "../../needs/useNeeds";
import { linesOf } from "../lines";

/** A suggestion. */
export interface Pick {
  /** What the person sees. */
  word: string;
  /** A line of the field, or its whole text. */
  text: string;
  /** More about it. */
  title: string;
}

/** Return the volumes of policy, each with a path of its own name; folders of the nodes at their own path. */
export function volumePicks(volumes: readonly Volume[]): Pick[] {
  return volumes
    .filter(({ kind, state }) => kind !== "checkpoint" && state !== "Missing")
    .map(({ name, kind, source, readOnly }) => ({
      word: name,
      text: `${name}:${kind === "folder" ? name : `/${name}`}${readOnly ? ":ro" : ""}`,
      title: kind === "folder" ? "A folder of the nodes" : source,
    }));
}

/** Return the secrets, all keys of each as variables or files. */
export function secretPicks(secrets: readonly Secret[]): Pick[] {
  return secrets.map(({ name, keys }) => ({ word: name, text: name, title: keys ? `Keys: ${keys.join(", ")}` : "Made by another tool" }));
}

/** Return the runs that left a checkpoint and are gone: a new run of the same name goes on from it. */
export function checkpointPicks(volumes: readonly Volume[], existing: ReadonlySet<string>): Pick[] {
  return volumes
    .filter(({ kind, run }) => kind === "checkpoint" && run && !existing.has(run))
    .map(({ run = "" }) => ({ word: `Go on from ${run}`, text: run, title: `Begin with the checkpoint that ${run} left: the run gets its name` }));
}

/** Whether a text has a line that uses the same volume or secret as a suggestion. */
export function isPicked(text: string, pick: Pick): boolean {
  return linesOf(text).some((line) => nameOf(line) === nameOf(pick.text));
}

/** Return the text with the suggestion's line, or without it if it is there. */
export function toggled(text: string, pick: Pick): string {
  const lines = linesOf(text);
  return (isPicked(text, pick) ? lines.filter((line) => nameOf(line) !== nameOf(pick.text)) : [...lines, pick.text]).join("\n");
}

/** Return the name of the volume or secret in a line: "imagenet:/data:ro", "certs:/certs", "TOKEN=hub/token". */
function nameOf(line: string): string {
  const [variable = "", rest] = line.split("=", 2);
  return rest === undefined ? (variable.split(":")[0] ?? "") : (rest.split("/")[0] ?? "");
}

const MOST_IMAGES = 6;

/** Return images to choose: the first ones that contain what was typed, unless that is one of them. */
export function imagePicks(images: readonly string[], typed: string): Pick[] {
  const word = typed.trim().toLowerCase();
  const different = [...new Set(images)].filter(Boolean);
  const fitting = different.includes(typed.trim()) ? [] : different.filter((image) => image.toLowerCase().includes(word));
  return fitting.slice(0, MOST_IMAGES).map((image) => ({ word: image, text: image, title: "" }));
}

/** Return the names of images that nodes have, as docker run takes them. */
export function nodeImages(images: readonly Schemas["ImageView"][]): string[] {
  const tagged = images.map(({ names }) => names.find((name) => !name.includes("@")) ?? "");
  return tagged.filter(Boolean).map((name) => name.replace(/^docker\.io\/(library\/)?/, ""));
}
