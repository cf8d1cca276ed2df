import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

const REFRESH_MS = 15_000;

export interface Sweep {
  namespace: string;
  name: string;
  uid: string;
}

/** Return the best member so far, by a value or by the one that the server takes. `succeeded` is the number of members that succeeded: without any, the server is not asked. */
export function useBest({ namespace, name, uid }: Sweep, succeeded: number, by = "") {
  return useQuery({
    queryKey: ["best", uid, by, succeeded],
    queryFn: async () =>
      contentOf(
        await client.GET("/v1/runs/{namespace}/{name}/results", {
          params: { path: { namespace, name }, query: { best: true, limit: 1, ...(by && { by }) } },
        }),
      ),
    enabled: succeeded > 0,
    staleTime: REFRESH_MS,
    // No result has a number yet, or no name says which number is the measure.
    refetchInterval: ({ state }) => (state.data && !state.data.by ? REFRESH_MS : false),
    placeholderData: keepPreviousData,
    retry: false,
  });
}
