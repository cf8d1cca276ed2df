import { useInfiniteQuery } from "@tanstack/react-query";
import { client, contentOf, Refused } from "../api/client";
import type { ShownRun } from "../run/data/findRun";

const PAGE = 500;
const WAIT_SECONDS = 10;
/** How often a folder that is being opened is asked for: two minutes. An image may have to be pulled first. */
const TRIES = 12;
const UNAVAILABLE = 503;

/** The entries of a folder, page by page. They are read again on request alone: each look keeps the folder open. */
export function useFiles({ namespace, title, uid }: ShownRun, path: string) {
  const found = useInfiniteQuery({
    queryKey: ["files", uid, path],
    queryFn: async ({ pageParam, signal }) => {
      const query = { path, limit: PAGE, wait: WAIT_SECONDS, ...(pageParam && { continue: pageParam }) };
      const params = { path: { namespace, name: title }, query };
      return contentOf(await client.GET("/v1/runs/{namespace}/{name}/files", { params, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.continue ?? undefined,
    retry: (count, error) => error instanceof Refused && error.status === UNAVAILABLE && count < TRIES,
    retryDelay: 500,
    staleTime: 30_000,
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
  const pages = found.data?.pages ?? [];
  return {
    page: pages.at(-1),
    items: pages.flatMap(({ items }) => items),
    error: found.error,
    /** The server's text about what a folder that is being opened waits for. */
    waitsFor: found.failureReason?.message ?? "",
    hasMore: found.hasNextPage,
    isLoading: found.isFetching,
    loadMore: () => void found.fetchNextPage(),
    refresh: () => void found.refetch(),
  };
}
