import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../../api/client";

const REFRESH_MS = 15_000;

const MOST = 100;

/** Return the waiting runs that a person may choose from (`namespace/name`), in order: the person's own, then the others. */
export function useWaiting(): string[] {
  const found = useQuery({
    queryKey: ["waiting"],
    queryFn: async () => [...(await waiting(["@me"])), ...(await waiting([]))],
    refetchInterval: REFRESH_MS,
  });
  return [...new Set(found.data ?? [])];
}

async function waiting(owner: string[]): Promise<string[]> {
  const query = { fields: ["summary" as const], limit: MOST, owner };
  const table = contentOf(await client.GET("/v1/queue", { params: { query } })) as Schemas["QueueTable"];
  return table.items.map(({ namespace, name }) => `${namespace}/${name}`);
}

/** Return why a run (`namespace/name`) waits, and what has to happen before it starts; nothing for an empty name. */
export function useExplanation(key: string) {
  const [namespace = "", name = ""] = key.split("/");
  return useQuery({
    queryKey: ["explain", namespace, name],
    queryFn: async () => contentOf(await client.GET("/v1/runs/{namespace}/{name}/explain", { params: { path: { namespace, name } } })),
    enabled: name !== "",
    refetchInterval: REFRESH_MS,
  });
}
