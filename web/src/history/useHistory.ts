import { keepPreviousData, useInfiniteQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { FINAL } from "../states/states";
import { boundsOf } from "../choices/span";
import type { Filter } from "./filter";

const PAGE = 200;

/** Return ended runs, page by page, as the server finds them; the newest first. */
export function useHistory({ name, text, owner, team, phases, span }: Filter) {
  return useInfiniteQuery({
    queryKey: ["history", name, text, owner, team, phases, span],
    queryFn: async ({ pageParam }) => {
      const phase = phases.length ? phases : [...FINAL];
      const bounds = boundsOf(span, Date.now());
      const query = { name, search: text, owner, namespace: team, phase, ...bounds, limit: PAGE, continue: pageParam };
      return contentOf(await client.GET("/v1/history", { params: { query } }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => page.continue ?? undefined,
    placeholderData: keepPreviousData,
  });
}
