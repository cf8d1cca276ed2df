import { useQuery } from "@tanstack/react-query";
import { signInOf, whoAmI } from "../api/signIn";

/** Return the namespace of runs that name none; empty while it is not known. */
export function useDefaultNamespace(): string {
  return useQuery({ queryKey: ["sign-in"], queryFn: signInOf, staleTime: Infinity }).data?.namespace ?? "";
}

/** Return the namespaces of teams whose runs the person may see; with `lead`, those that they lead. */
export function useTeams(role: "" | "lead" = ""): string[] {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const found = who.data?.namespaces ?? [];
  return found.filter((right) => !role || right.role === role).map(({ namespace }) => namespace);
}
