import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Member, type Run } from "../api/client";

const PAGE = 1000;
const REFRESH_MS = 3_000;
/** Large lists are read less often. */
const REFRESH_MS_PER_PAGE = 4_000;

/** Return the newest Pods of all members of a run, by rank. */
export function useMembers(run: Run) {
  return useQuery({
    queryKey: ["members", run.uid],
    queryFn: () => allMembers(run),
    refetchInterval: ({ state }) => Math.max(REFRESH_MS, Math.floor((state.data?.length ?? 0) / PAGE) * REFRESH_MS_PER_PAGE),
  });
}

async function allMembers({ namespace, name }: Run): Promise<Member[]> {
  const members: Member[] = [];
  let next: string | undefined;
  do {
    const query = { limit: PAGE, ...(next ? { continue: next } : {}) };
    const page = contentOf(await client.GET("/v1/runs/{namespace}/{name}/members", { params: { path: { namespace, name }, query } }));
    members.push(...page.items);
    next = page.continue ?? undefined;
  } while (next);
  return members;
}
