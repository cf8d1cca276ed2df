import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

const REFRESH_MS = 15_000;

/** Return the runs that wait for nodes, in order. */
export function useWaiting() {
  return useQuery({
    queryKey: ["queue"],
    queryFn: async () => contentOf(await client.GET("/v1/queue")),
    refetchInterval: REFRESH_MS,
  });
}

/** Return why a run (`namespace/name`) waits, and what has to happen before it starts; nothing for an empty name. */
export function useExplanation(key: string) {
  const [namespace = "", name = ""] = key.split("/");
  return useQuery({
    queryKey: ["explain", namespace, name],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/explain", { params: { path: { namespace, name } } })),
    enabled: name !== "",
    refetchInterval: REFRESH_MS,
  });
}
