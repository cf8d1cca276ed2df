import { client, contentOf, Refused } from "../../api/client";
import { findRun, type ShownRun } from "./findRun";

const NOT_FOUND = 404;
const NO_HISTORY = 501;

/** Read a run by its name or UID, from the cluster or from history. Throws the server's refusal if there is none. */
export async function readRun(namespace: string, name: string): Promise<ShownRun> {
  let refusal: unknown = null;
  const orNull = async <T>(read: Promise<T>): Promise<T | null> => {
    try {
      return await read;
    } catch (error) {
      if (!(error instanceof Refused) || ![NOT_FOUND, NO_HISTORY].includes(error.status)) throw error;
      refusal ??= error;
      return null;
    }
  };
  const at = (wanted: string) => ({ params: { path: { namespace, name: wanted } } });
  const found = await findRun(name, {
    live: (wanted) => orNull(client.GET("/v1/runs/{namespace}/{name}", at(wanted)).then(contentOf)),
    recorded: (wanted) => orNull(client.GET("/v1/history/{namespace}/{name}", at(wanted)).then(contentOf)),
  });
  if (!found) throw refusal;
  return found;
}
