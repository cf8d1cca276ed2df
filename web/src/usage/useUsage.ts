import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { boundsOf } from "../choices/span";
import type { Question, Usage } from "./usage";

const REFRESH_MS = 60_000;
export const MOST_ROWS = 1_000;

/** Return usage, read again every minute: runs that hold nodes count until now. */
export function useUsage(question: Question) {
  const { by, span, team, owner } = question;
  return useQuery({
    queryKey: ["usage", by, span, team, owner],
    queryFn: () => readUsage(question, MOST_ROWS),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

/** Read usage; of the largest `limit` rows, or of all. */
export async function readUsage({ by, span, team, owner }: Question, limit?: number): Promise<Usage> {
  const query = { by, owner, namespace: team, ...boundsOf(span, Date.now()), ...(limit && { limit }) };
  return contentOf(await client.GET("/v1/usage", { params: { query } }));
}
