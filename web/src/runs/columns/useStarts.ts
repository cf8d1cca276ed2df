import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../../api/client";
import { serverNow } from "../../api/clock";
import { listedStart } from "../../queue/words";
import type { Row } from "../data/rows";

const REFRESH_MS = 30_000;
/** Runs farther behind in the queue have no expected start that says anything. */
const MOST = 1_000;

/** When a run is expected to start: in words ("expected in 2 h"), and the time. Both are empty if it does not wait, or if that is not known. */
export interface Start {
  starts: string;
  startsAt: string;
}

/** Return the expected starts of waiting runs by UID, which are asked for as long as one of `runs` waits. */
export function useStarts(runs: readonly Row[]): ReadonlyMap<string, Start> | undefined {
  const waits = runs.some(({ phase }) => phase === "Queued");
  const { data } = useQuery({
    queryKey: ["starts"],
    queryFn: async () => {
      const query = { fields: ["summary" as const], state: ["waiting" as const, "dependent" as const], limit: MOST };
      const table = contentOf(await client.GET("/v1/queue", { params: { query } })) as Schemas["QueueTable"];
      return new Map(table.items.map((row) => [row.uid, { starts: listedStart(row, serverNow()), startsAt: row.startsAt }]));
    },
    enabled: waits,
    refetchInterval: REFRESH_MS,
  });
  return data;
}
