import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

const REFRESH_MS = 15_000;

/** Return what the server says of an absent controller: without one, runs neither start nor stop. Empty if one is at work. */
export function useAbsentController(): string {
  const { data } = useQuery({
    queryKey: ["controller"],
    queryFn: async () => contentOf(await client.GET("/v1/controller")),
    refetchInterval: REFRESH_MS,
  });
  return data?.absent ? data.says : "";
}
