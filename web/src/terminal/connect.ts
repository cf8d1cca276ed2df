/** Commands that reach a member of a running run from a person's own computer. */
import type { Run } from "../api/client";
import { lineOf } from "../words/commands";

type Reached = Pick<Run, "name" | "namespace"> & { spec: Pick<Run["spec"], "type" | "ports" | "tensorboard"> };

/** Return the commands that fit the run. `isOnly` says that no other namespace has a run of this name: the name is enough then. */
export function connectLines({ name, namespace, spec }: Reached, rank: number, isOnly: boolean): string[] {
  const options = { "-N": isOnly ? "" : namespace, "--rank": rank ? `${rank}` : "" };
  const lines = [lineOf("exec -it", options, [name, "bash"]), lineOf("ssh", options, [name])];
  const ports = (spec.ports ?? []).map(String);
  if (ports.length || (spec.type === "notebook" && !rank)) lines.push(lineOf("port-forward", options, [name, ...ports]));
  if (spec.tensorboard) lines.push(lineOf("tensorboard", options, [name]));
  return lines;
}

/** Return the member's host for OpenSSH once `kaji ssh-config` was run. */
export function sshHost({ name, namespace }: Pick<Run, "name" | "namespace">, rank: number, isOnly: boolean): string {
  return [...(rank ? [rank] : []), name, ...(isOnly ? [] : [namespace]), "kaji"].join(".");
}
