import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import type { Temperatures } from "./colours";

const REFRESH_MS = 30_000;
const NONE: Temperatures = {};

/** Return the temperatures of nodes while they are `wanted`: nodes report them once a minute. */
export function useTemperatures(wanted: boolean): Temperatures {
  const found = useQuery({
    queryKey: ["node-temperatures"],
    queryFn: async () => contentOf(await client.GET("/v1/node-temperatures")),
    enabled: wanted,
    refetchInterval: REFRESH_MS,
  });
  return found.data?.celsius ?? NONE;
}
