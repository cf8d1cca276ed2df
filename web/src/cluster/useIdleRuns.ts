import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { client, contentOf } from "../api/client";
import type { IdleRuns } from "./colours";

const REFRESH_MS = 30_000;
const MOST = 1_000;

/** Return the runs with idle GPUs that the person may see, while they are `wanted`. */
export function useIdleRuns(wanted: boolean): IdleRuns {
  const found = useQuery({
    queryKey: ["idle-runs"],
    queryFn: async () => contentOf(await client.GET("/v1/idle", { params: { query: { limit: MOST } } })),
    enabled: wanted,
    refetchInterval: REFRESH_MS,
  });
  return useMemo(() => new Map((found.data?.items ?? []).map(({ namespace, run, fewest, gpus }) => [`${namespace}/${run}`, fewest >= gpus])), [found.data]);
}
