import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

const REFRESH_MS = 60_000;

/** Return the registry of all clusters' addresses. */
export function useNetworks() {
  return useQuery({
    queryKey: ["networks"],
    queryFn: async () => contentOf(await client.GET("/v1/networks")),
    refetchInterval: REFRESH_MS,
  });
}
