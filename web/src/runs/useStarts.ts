import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf, type Schemas } from "../api/client";
import { serverNow } from "../api/clock";
import { listedStart } from "../queue/words";
import type { Row } from "./rows";

const REFRESH_MS = 30_000;
/** Runs farther behind in the queue have no expected start that says anything. */
const MOST = 1_000;

/** A run of the list, with when it is expected to start: in words ("expected in 2 h"), and the time. Both are empty if it does not wait, or if that is not known. */
export interface ListedRow extends Row {
  starts: string;
  startsAt: string;
}

const UNKNOWN = { starts: "", startsAt: "" };

/** Return runs with their expected starts, which are asked for as long as one of them waits. */
export function useStarts(runs: readonly Row[]): readonly ListedRow[] {
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
  return useMemo(() => runs.map((run) => ({ ...run, ...((run.phase === "Queued" && data?.get(run.uid)) || UNKNOWN) })), [runs, data]);
}
