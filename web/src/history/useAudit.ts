import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { boundsOf } from "../choices/span";
import type { AuditFilter } from "./audit";

const PAGE = 100;

/** Return the audit trail, page by page; the newest entry first. */
export function useAudit({ actor, object, outcome, team, span }: AuditFilter) {
  return useInfiniteQuery({
    queryKey: ["audit", actor, object, outcome, team, span],
    queryFn: async ({ pageParam }) => {
      const bounds = boundsOf(span, Date.now());
      const query = { actor, object, outcome, namespace: team, ...bounds, limit: PAGE, continue: pageParam };
      return contentOf(await client.GET("/v1/audit", { params: { query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.continue ?? undefined,
    placeholderData: keepPreviousData,
  });
}
