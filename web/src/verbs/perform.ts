import { client, ensureDone } from "../api/client";
import type { Row } from "../runs/data/rows";
import type { Verb } from "./verbs";

/** Do something with a run as the person who is signed in. Throws a Refused. */
export async function perform(verb: Verb, run: Pick<Row, "namespace" | "name">): Promise<void> {
  const params = { path: { namespace: run.namespace, name: run.name } };
  if (verb === "stop") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/stop", { params, body: { grace: null } }));
  else if (verb === "resume") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/resume", { params }));
  else ensureDone(await client.DELETE("/v1/runs/{namespace}/{name}", { params }));
}
