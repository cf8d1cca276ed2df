import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../../api/client";
import { CopyLine } from "../../common/CopyLine";
import type { ShownRun } from "../data/findRun";

/** The `kaji run` command that asks for the same run. */
export function CommandLine({ run }: { run: ShownRun }) {
  const line = useQuery({
    queryKey: ["command-line", run.uid],
    queryFn: async () => {
      const body = { namespace: run.namespace, name: run.title, spec: run.spec } as Schemas["RunRequest"];
      return contentOf(await client.POST("/v1/command-line", { body })).text;
    },
    staleTime: Infinity,
    retry: false,
  });
  return line.data ? <CopyLine text={line.data} /> : null;
}
