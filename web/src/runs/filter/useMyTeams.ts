import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../../api/client";

/** Return the names of the teams in which the person is; undefined until they are known. */
export function useMyTeams(): string[] | undefined {
  const teams = useQuery({
    queryKey: ["my-teams"],
    queryFn: async () => contentOf(await client.GET("/v1/teams")).items,
    staleTime: 60_000,
  });
  return teams.data?.filter(({ yours }) => yours).map(({ name }) => name);
}
