import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { client, contentOf, type Schemas } from "../api/client";
import type { Row } from "../runs/data/rows";
import { useSettled } from "../start/useSettled";
import { fitting, NOTHING, openRun, parsed, type Found } from "./commands";

const SETTLED_MS = 120;
/** Runs that are read: their owners are the people that are offered. */
const RUNS = 30;
const NODES = 8;

/** Return what the server finds for a text. Until it has answered, what it found for the text before is shown if it fits. */
export function useFound(text: string): Found {
  const { verb, words } = parsed(useSettled(text, SETTLED_MS));
  const asked = verb !== null || words !== "";
  const found = useQuery({
    queryKey: ["search", verb, words],
    queryFn: async () => {
      const [runs, nodes, teams] = await Promise.all([
        client.GET("/v1/runs", {
          params: { query: { search: words, fields: ["summary"], limit: RUNS, active: verb === "stop" || verb === "kill" || verb === "restart" } },
        }),
        verb ? null : client.GET("/v1/nodes", { params: { query: { search: words, fields: ["summary"], limit: NODES } } }),
        client.GET("/v1/teams"),
      ]);
      return {
        asked: { verb, words },
        runs: (contentOf(runs) as Schemas["RunTable"]).items,
        nodes: nodes ? (contentOf(nodes) as Schemas["NodeTable"]).items : [],
        teams: contentOf(teams).items,
      };
    },
    enabled: asked,
    placeholderData: keepPreviousData,
  });
  return asked && found.data ? fitting(found.data, found.data.asked, text) : NOTHING;
}

/** Return the run whose page is open; null on other pages. */
export function useOpenRun(path: string): Row | null {
  const open = openRun(path);
  const run = useQuery({
    queryKey: ["open-run", open],
    queryFn: async () => {
      const query = { name: open?.name ?? "", namespace: [open?.namespace ?? ""], fields: ["summary" as const], limit: 1 };
      return (contentOf(await client.GET("/v1/runs", { params: { query } })) as Schemas["RunTable"]).items;
    },
    enabled: open !== null,
  });
  return run.data?.find(({ name }) => name === open?.name) ?? null;
}
