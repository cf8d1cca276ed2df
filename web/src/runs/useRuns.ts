import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../api/client";
import type { Whose } from "./filter";

const REFRESH_MS = 3_000;
const PAGE_SIZE = 1_000;

/** Return the runs that the caller may see, newest first, and refresh them. */
export function useRuns(whose: Whose) {
  return useQuery({
    queryKey: ["runs", whose],
    queryFn: () => allRuns(whose),
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
}

async function allRuns(whose: Whose): Promise<Run[]> {
  const found: Run[] = [];
  let next: string | null = "";
  while (next !== null) {
    const query = { limit: PAGE_SIZE, ...(whose === "mine" ? { owner: "@me" } : {}), ...(next ? { continue: next } : {}) };
    const page: { items: Run[]; continue?: string | null } = contentOf(await client.GET("/v1/runs", { params: { query } }));
    found.push(...page.items);
    next = page.continue ?? null;
  }
  return found;
}
