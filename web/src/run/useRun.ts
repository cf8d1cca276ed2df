import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { isFinal } from "./status";

const REFRESH_MS = 2_000;

/** Return a run, refreshed until it does not change any more. */
export function useRun(namespace: string, name: string) {
  return useQuery({
    queryKey: ["run", namespace, name],
    queryFn: async () =>
      contentOf(await client.GET("/v1/runs/{namespace}/{name}", { params: { path: { namespace, name } } })),
    refetchInterval: (query) => (query.state.data && isFinal(query.state.data) ? 10 * REFRESH_MS : REFRESH_MS),
  });
}
