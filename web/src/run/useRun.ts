import { useQuery } from "@tanstack/react-query";
import { readRun } from "./readRun";
import { isFinal, isResuming } from "./status";

const REFRESH_MS = 2_000;

/** Return a run, refreshed until it does not change any more; a removed one as history keeps it. */
export function useRun(namespace: string, name: string) {
  return useQuery({
    queryKey: ["run", namespace, name],
    queryFn: () => readRun(namespace, name),
    refetchInterval: ({ state: { data } }) => {
      if (data?.isRemoved) return false;
      return data && isFinal(data) && !isResuming(data) ? 10 * REFRESH_MS : REFRESH_MS;
    },
  });
}
