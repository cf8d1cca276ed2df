import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../../api/client";
import { whoAmI } from "../../api/signIn";
import { notebookName, type NotebookDefaults } from "../form";

const REFRESH_MS = 10_000;
const MOST = 20;

interface Rules {
  image?: string;
  path?: string;
  timeLimit?: string | null;
}

/** Return my notebooks, newest first; undefined until they are known. Nothing is asked while `isWanted` is false. */
export function useMyNotebooks(isWanted: boolean): Run[] | undefined {
  const found = useQuery({
    queryKey: ["my-notebooks"],
    queryFn: async () => {
      const query = { owner: ["@me"], notebook: true, sort: "-createdAt" as const, limit: MOST };
      return contentOf(await client.GET("/v1/runs", { params: { query } })).items as Run[];
    },
    enabled: isWanted,
    refetchInterval: REFRESH_MS,
  });
  return found.data;
}

/** Return what `kaji notebook` fills in: a name that I do not use yet, and image, folder and time limit of the policy. */
export function useNotebookDefaults(mine: readonly Run[]): NotebookDefaults {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const policy = useQuery({
    queryKey: ["policy"],
    queryFn: async () => contentOf(await client.GET("/v1/policy")).policy as { notebooks?: Rules },
    staleTime: 60_000,
  });
  const { image = "", path = "", timeLimit } = policy.data?.notebooks ?? {};
  const name = who.data ? notebookName(who.data.user, mine.map((run) => run.name)) : "";
  return { name, image, folder: path, timeLimit: timeLimit ?? "" };
}
