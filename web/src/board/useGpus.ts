import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

/** Return the GPUs of the cluster and the guarantees of teams, for people who are signed in. */
export function useGpus(refreshMs: number | false = false) {
  return useQuery({ queryKey: ["gpus"], queryFn: async () => contentOf(await client.GET("/v1/gpus")), refetchInterval: refreshMs });
}
