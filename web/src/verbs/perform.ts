import { client, ensureDone } from "../api/client";
import type { Row } from "../runs/data/rows";
import type { Verb } from "./verbs";

/** Do something with a run as the person who is signed in. Throws a Refused, also if another run has its name by now. */
export async function perform(verb: Verb, run: Pick<Row, "namespace" | "name" | "uid">): Promise<void> {
  const params = { path: { namespace: run.namespace, name: run.name }, header: { "If-Match": run.uid } };
  if (verb === "restart") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/restart", { params, body: { grace: null } }));
  else if (verb === "stop" || verb === "kill") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/stop", { params, body: { grace: verb === "kill" ? "0s" : null } }));
  else if (verb === "resume") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/resume", { params }));
  else ensureDone(await client.DELETE("/v1/runs/{namespace}/{name}", { params }));
}
