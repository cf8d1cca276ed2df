import { useQuery } from "@tanstack/react-query";
import { readRun } from "./readRun";
import { isFinal, isResuming } from "./status";

const REFRESH_MS = 2_000;

/** Return a run, refreshed until it does not change any more; a removed one as history keeps it. With a UID, it is not another run that has the name now. */
export function useRun(namespace: string, name: string, uid = "") {
  return useQuery({
    queryKey: ["run", namespace, name, uid],
    queryFn: async () => {
      const found = await readRun(namespace, name);
      return uid && found.uid !== uid ? readRun(namespace, uid) : found;
    },
    refetchInterval: ({ state: { data } }) => {
      if (data?.isRemoved) return false;
      return data && isFinal(data) && !isResuming(data) ? 10 * REFRESH_MS : REFRESH_MS;
    },
  });
}
