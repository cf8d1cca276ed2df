import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

const REFRESH_MS = 15_000;

/** Return the board, read again every 15 seconds. Without a session it is refused unless policy opens it to everybody. */
export function useBoard() {
  return useQuery({
    queryKey: ["board"],
    queryFn: async () => contentOf(await client.GET("/v1/board")),
    refetchInterval: REFRESH_MS,
  });
}
