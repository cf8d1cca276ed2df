/** Paths in a checkpoint folder or in a member, and the addresses and commands for them. */
import type { Run } from "../api/client";
import { quoted } from "../words/commands";

interface Named {
  namespace: string;
  title: string;
}

export interface Step {
  name: string;
  path: string;
  isLast: boolean;
}

/** Return the folders from the checkpoint folder to a path. */
export function stepsOf(folder: string, path: string): Step[] {
  const names = path.split("/").filter(Boolean);
  return [
    { name: folder, path: "", isLast: !names.length },
    ...names.map((name, index) => ({ name, path: names.slice(0, index + 1).join("/"), isLast: index === names.length - 1 })),
  ];
}

/** Return the folders from the root of a member to an absolute path. */
export function stepsFromRoot(path: string): Step[] {
  return stepsOf("/", path).map((step) => ({ ...step, path: `/${step.path}` }));
}

export function joinedPath(folder: string, name: string): string {
  return folder ? `${folder.replace(/\/$/, "")}/${name}` : name;
}

/** Return the address at which a browser downloads a file, or a folder as an archive. */
export function addressOf({ namespace, title }: Named, what: "content" | "archive", path: string): string {
  const query = new URLSearchParams({ path, wait: "60" });
  return `/v1/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(title)}/files/${what}?${query}`;
}

/** Return the command that starts a small run of the same name: it has the checkpoint folder of one that was removed. */
export function returnCommand({ namespace, title, spec }: Named & Pick<Run, "spec">): string {
  const words = ["kaji run -d -N", namespace, "--name", title, "--checkpoint", quoted(spec.checkpoint?.path ?? "")];
  return [...words, "--cpus 0.1 -m 64m --time-limit 1h", quoted(spec.image ?? ""), "sleep 3600"].join(" ");
}

/** Return the command that copies a file or folder. */
export function copyCommand({ namespace, title }: Named, folder: string, path: string): string {
  return `kaji cp -N ${namespace} ${quoted(`${title}:${path ? `${folder}/${path}` : folder}`)} .`;
}

/** Return the address at which a browser downloads a file of a member, or a folder as an archive, and to which it uploads one. */
export function memberAddress({ namespace, title }: Named, rank: number, path: string): string {
  const query = new URLSearchParams({ path, rank: `${rank}` });
  return `/v1/runs/${encodeURIComponent(namespace)}/${encodeURIComponent(title)}/member-files/content?${query}`;
}

/** Return the command that copies a file or folder out of a member. */
export function memberCopyCommand({ namespace, title }: Named, rank: number, path: string): string {
  return ["kaji cp -N", namespace, ...(rank ? [`--rank ${rank}`] : []), quoted(`${title}:${path}`), "."].join(" ");
}
