import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../api/client";
import { serverNow } from "../api/clock";

/** Asked when a person asks, and never again by itself: each look stops processes for a moment. */
const ONCE = { staleTime: Infinity, refetchOnWindowFocus: false, refetchOnReconnect: false, retry: false } as const;

/** Return whether a run is stuck, and where its processes are: by a look now, or, of an attempt, as it was kept. */
export function useWhy({ namespace, name, uid }: Run, attempt: number | null) {
  return useQuery({
    queryKey: ["why", uid, attempt],
    queryFn: async () => {
      const params = { path: { namespace, name }, query: attempt === null ? {} : { attempt } };
      const found = contentOf(await client.GET("/v1/runs/{namespace}/{name}/why", { params }));
      return { ...found, at: found.at ?? new Date(serverNow()).toISOString() };
    },
    ...ONCE,
    refetchOnMount: "always",
  });
}

/** Return the whole stacks of one rank: by a look of their own, or, of an attempt, as they were kept. `at` is the time of the stacks of all ranks. */
export function useStacks({ namespace, name, uid }: Run, rank: number, attempt: number | null, at: string) {
  return useQuery({
    queryKey: ["stacks", uid, rank, attempt, at],
    queryFn: async () => {
      const params = { path: { namespace, name }, query: { rank: [rank], ...(attempt !== null && { attempt }) } };
      return contentOf(await client.GET("/v1/runs/{namespace}/{name}/stacks", { params }));
    },
    ...ONCE,
  });
}
