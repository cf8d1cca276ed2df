import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, ensureDone } from "../api/client";

interface Answers {
  /** Called once the answer is given. */
  onDone?: () => void;
}

/** Return the answer to the question about a run's idle GPUs: a time until which it is kept, or null to park it. */
export function useIdleAnswer(path: { namespace: string; name: string }, { onDone }: Answers = {}) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: async (until: string | null) => {
      if (until === null) ensureDone(await client.POST("/v1/runs/{namespace}/{name}/park", { params: { path } }));
      else ensureDone(await client.POST("/v1/runs/{namespace}/{name}/keep", { params: { path }, body: { until } }));
    },
    onSuccess: async () => {
      onDone?.();
      await queries.invalidateQueries();
    },
  });
}
