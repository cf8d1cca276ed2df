import { useQuery } from "@tanstack/react-query";
import { useCallback } from "react";
import { whoAmI } from "../api/signIn";

/** Return whether the person may change runs of a namespace, and enter their members: not if they may only see them. True as long as it is not known, because the server decides. */
export function useMayChange(): (namespace: string) => boolean {
  const { data } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  return useCallback(
    (namespace: string) => !data?.namespaces.some((right) => right.namespace === namespace && right.role === "viewer"),
    [data],
  );
}

/** Return whether the person may read the logs of runs of a namespace. True as long as it is not known. */
export function useMayReadLogs(): (namespace: string) => boolean {
  const { data } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  return useCallback((namespace: string) => !data?.namespaces.some((right) => right.namespace === namespace && !right.logs), [data]);
}

/** Return whether the person may make secrets for the runs of a namespace. True as long as it is not known. */
export function useMayMakeSecrets(): (namespace: string) => boolean {
  const { data } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  return useCallback((namespace: string) => !data?.namespaces.some((right) => right.namespace === namespace && !right.secrets), [data]);
}

/** Return whether the person may start runs somewhere. True as long as it is not known. */
export function useMayStart(): boolean {
  const { data } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  return !data?.namespaces.length || data.namespaces.some(({ role }) => role !== "viewer");
}

/** Return the namespaces in which the person may start runs. */
export function useStartTeams(): string[] {
  const { data } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  return (data?.namespaces ?? []).filter(({ role }) => role !== "viewer").map(({ namespace }) => namespace);
}
