import { useQuery } from "@tanstack/react-query";
import { client, contentOf, Refused } from "../api/client";
import type { MonthUsage } from "./board";

const REFRESH_MS = 300_000;
const NO_HISTORY = 501;

/** Return the GPU-hours of the last month, read again every five minutes; null from a server without history. */
export function useBoardUsage() {
  return useQuery({
    queryKey: ["board-usage"],
    queryFn: async (): Promise<MonthUsage | null> => {
      const answer = await client.GET("/v1/board/usage");
      try {
        return contentOf(answer);
      } catch (error) {
        if (error instanceof Refused && error.status === NO_HISTORY) return null;
        throw error;
      }
    },
    refetchInterval: REFRESH_MS,
  });
}
