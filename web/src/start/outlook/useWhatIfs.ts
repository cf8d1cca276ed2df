import { keepPreviousData, useQueries } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../../api/client";
import type { Request } from "../form";
import { useSettled } from "../useSettled";

const REFRESH_MS = 20_000;
const PAUSE_MS = 250;

export interface Asked {
  data: Schemas["WhatIf"] | undefined;
  error: Error | null;
}

/** Return what the server says would happen to each of these requests, once they have not changed for a moment. */
export function useWhatIfs(requests: readonly Request[]): readonly Asked[] {
  const settled = useSettled(requests, PAUSE_MS);
  return useQueries({
    queries: settled.map((body) => ({
      queryKey: ["what-if", body],
      queryFn: async () => contentOf(await client.POST("/v1/what-if", { body: body as Schemas["RunRequest"] })),
      placeholderData: keepPreviousData,
      refetchInterval: REFRESH_MS,
      retry: false,
    })),
    combine: answersOf,
  });
}

function answersOf(answers: readonly Asked[]): Asked[] {
  return answers.map(({ data, error }) => ({ data, error }));
}
