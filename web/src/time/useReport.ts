import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../api/client";
import { isFinal } from "../run/data/status";

const REFRESH_MS = 30_000;

/** Return where the time of a run went, and what is known of its checkpoints. */
export function useReport(run: Run) {
  const { namespace, name } = run;
  return useQuery({
    queryKey: ["report", run.uid],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/report", { params: { path: { namespace, name } } })),
    refetchInterval: isFinal(run) ? false : REFRESH_MS,
  });
}
