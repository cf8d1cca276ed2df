import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../../api/client";
import { whoAmI } from "../../api/signIn";
import { useSecrets, useVolumes, type Volume } from "../../needs/useNeeds";
import { useMyTeams } from "../../runs/filter/useMyTeams";
import type { Kind } from "../form";
import { useRecent } from "../Recent";
import { offered } from "../templates";
import { useTemplates } from "../Templates";
import { checkpointPicks, nodeImages, secretPicks, volumePicks } from "./picks";

const MOST_RUNS = 1_000;
const NO_VOLUMES: readonly Volume[] = [];

/** Return what the fields can suggest for runs of a namespace, once it is wanted. */
export function usePicks(namespace: string, isWanted: boolean) {
  const volumes = useVolumes(namespace, isWanted).data?.items ?? NO_VOLUMES;
  const secrets = useSecrets(namespace, isWanted);
  const hasCheckpoints = volumes.some(({ kind }) => kind === "checkpoint");
  const names = useQuery({
    queryKey: ["run-names", namespace],
    queryFn: async () => {
      const query = { fields: ["name" as const], limit: MOST_RUNS, ...(namespace && { namespace: [namespace] }) };
      return (contentOf(await client.GET("/v1/runs", { params: { query } })).items as { name: string }[]).map(({ name }) => name);
    },
    enabled: hasCheckpoints,
  });
  return {
    volumes: volumePicks(volumes),
    secrets: secretPicks(secrets.data?.items ?? []),
    checkpoints: names.data ? checkpointPicks(volumes, new Set(names.data)) : [],
  };
}

/** Return the images that a person probably wants: those of their newest runs, of templates, and for operators those that nodes have. */
export function useImages(kind: Kind): string[] {
  const recent = useRecent();
  const templates = offered(useTemplates(), useMyTeams() ?? []);
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const nodes = useQuery({
    queryKey: ["images"],
    queryFn: async () => nodeImages(contentOf(await client.GET("/v1/images")).items),
    enabled: who.data?.operator === true && kind !== "notebook",
    staleTime: 60_000,
    retry: false,
  });
  const isWanted = ({ type }: Partial<Schemas["RunSpec"]>) => (type === "notebook") === (kind === "notebook");
  const specs = [...recent.map(({ spec }) => spec), ...templates.map(({ spec }) => spec)];
  return [...specs.filter(isWanted).map(({ image }) => image ?? ""), ...(kind === "notebook" ? [] : (nodes.data ?? []))];
}
