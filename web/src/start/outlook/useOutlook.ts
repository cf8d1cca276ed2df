import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf, Refused, type Schemas } from "../../api/client";
import type { Request } from "../form";

const REFRESH_MS = 10_000;

type Body = Schemas["RunRequest"];

/** Return what the server says about a request: the command line for it, whether it would start now or why it is refused; or why it says nothing. Nothing is asked about a request that is not complete. */
export function useOutlook(request: Request, isComplete: boolean) {
  const body = request as Body;
  const line = useQuery({
    queryKey: ["command-line", request],
    queryFn: async () => contentOf(await client.POST("/v1/command-line", { body })).text,
    enabled: isComplete,
    placeholderData: keepPreviousData,
    staleTime: Infinity,
  });
  const outlook = useQuery({
    queryKey: ["what-if", request],
    queryFn: async () => contentOf(await client.POST("/v1/what-if", { body })),
    enabled: isComplete,
    placeholderData: keepPreviousData,
    refetchInterval: REFRESH_MS,
  });
  const refusal = outlook.error instanceof Refused ? outlook.error : null;
  const failure = [outlook.error, line.error].find((error) => error && !(error instanceof Refused)) ?? null;
  return { line: isComplete ? line.data : undefined, outlook, refusal, failure };
}
