import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { FINAL } from "../states/states";
import type { Phase } from "../api/client";

const REFRESH_MS = 30_000;

/** Return the comparison of two to four runs, asked again as long as one of them goes on. */
export function useComparison(runs: readonly string[]) {
  return useQuery({
    queryKey: ["compare", runs],
    queryFn: async () => contentOf(await client.GET("/v1/compare", { params: { query: { run: [...runs] } } })),
    enabled: runs.length > 1,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.runs.every(({ phase }) => FINAL.has(phase as Phase)) ? false : REFRESH_MS),
  });
}
