import { client, contentOf, ensureDone, Refused } from "../api/client";
import type { Row } from "../runs/data/rows";
import { FINAL } from "../states/states";
import type { Verb } from "./verbs";

/** Do something with a run as the person who is signed in. Throws a Refused, also if another run has its name by now. */
export async function perform(verb: Verb, run: Pick<Row, "namespace" | "name" | "uid">): Promise<void> {
  const params = { path: { namespace: run.namespace, name: run.name }, header: { "If-Match": run.uid } };
  if (verb === "restart") await restart(run);
  else if (verb === "stop" || verb === "kill") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/stop", { params, body: { grace: verb === "kill" ? "0s" : null } }));
  else if (verb === "resume") ensureDone(await client.POST("/v1/runs/{namespace}/{name}/resume", { params }));
  else ensureDone(await client.DELETE("/v1/runs/{namespace}/{name}", { params }));
}

const LOOK_MS = 1_000;
/** Time that a run may take to end after the grace of its members. */
const PATIENCE_SECONDS = 120;

/** Stop a run, wait for its end, and queue it again: it goes on from its last checkpoint. Throws a Refused, or an error if it does not end. */
async function restart({ namespace, name, uid }: Pick<Row, "namespace" | "name" | "uid">): Promise<void> {
  const path = { namespace, name };
  const params = { path, header: { "If-Match": uid } };
  const { graceSeconds } = contentOf(await client.POST("/v1/runs/{namespace}/{name}/stop", { params, body: { grace: null } }));
  const until = Date.now() + (graceSeconds + PATIENCE_SECONDS) * 1_000;
  for (;;) {
    const run = contentOf(await client.GET("/v1/runs/{namespace}/{name}", { params: { path } }));
    if (run.uid !== uid) throw new Refused(409, `${name} is another run now`, "nothing was started again");
    if (FINAL.has(run.status.phase ?? "Queued")) break;
    if (Date.now() > until) throw new Refused(504, `${name} was asked to stop, and has not ended yet`, "resume it once it has ended");
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
  ensureDone(await client.POST("/v1/runs/{namespace}/{name}/resume", { params }));
}
