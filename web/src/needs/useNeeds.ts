/** What runs of a namespace can use: volumes, checkpoints and secrets. */
import { useQuery } from "@tanstack/react-query";
import { client, contentOf, Refused, type Schemas } from "../api/client";

export type Volume = Schemas["VolumeView"];
export type Secret = Schemas["SecretView"];

const FORBIDDEN = 403;

/** Return the volumes and checkpoints of a namespace; of the server's own if it is empty. Nothing is asked while `isWanted` is false. */
export function useVolumes(namespace: string, isWanted = true) {
  return useQuery({
    enabled: isWanted,
    queryKey: ["volumes", namespace],
    queryFn: async () => contentOf(await client.GET("/v1/volumes", { params: { query: namespace ? { namespace } : {} } })),
    retry: isWorthAnotherTry,
  });
}

/** Return the secrets of a namespace, without their values. */
export function useSecrets(namespace: string, isWanted = true) {
  return useQuery({
    enabled: isWanted,
    queryKey: ["secrets", namespace],
    queryFn: async () => contentOf(await client.GET("/v1/secrets", { params: { query: namespace ? { namespace } : {} } })),
    retry: isWorthAnotherTry,
  });
}

/** Whether an error says that the person may not see it. */
export function isForbidden(error: Error | null): boolean {
  return error instanceof Refused && error.status === FORBIDDEN;
}

function isWorthAnotherTry(failures: number, error: Error): boolean {
  return !isForbidden(error) && failures < 3;
}
