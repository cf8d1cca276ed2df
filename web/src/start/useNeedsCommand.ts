import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";

/** Whether a run has to name its command, because the server's nodes do not run images. False as long as it is not known. */
export function useNeedsCommand(): boolean {
  const policy = useQuery({
    queryKey: ["policy"],
    queryFn: async () => contentOf(await client.GET("/v1/policy")).policy as { images?: { ownCommand?: boolean } },
    staleTime: 60_000,
  });
  return policy.data?.images?.ownCommand === false;
}
