import { useQuery } from "@tanstack/react-query";
import { useRef } from "react";
import { client, contentOf, type Schemas } from "../../api/client";
import { serverNow } from "../../api/clock";
import { useSettled } from "../../start/useSettled";
import { FINAL } from "../../states/states";
import type { Row } from "../data/rows";

export type Figures = Schemas["RunFigures"];
export type FiguresByUid = ReadonlyMap<string, Figures>;

const REFRESH_MS = 30_000;
/** For how long the rows have to stay before their figures are asked for. */
const SETTLED_MS = 250;
/** Most runs that the server takes in one question. */
const MOST = 256;
/** Time after the end of a run in which its last minute may still arrive. */
const LATE_MS = 300_000;
const NONE: FiguresByUid = new Map();

/** Return the last figures of the runs whose UIDs are in `visible`, or of all runs that the parameters `all` of the Web API's list select. They are asked for again while one of `runs` may have new ones and the tab can be seen. */
export function useFigures(visible: readonly string[], all: string | null, runs: readonly Row[]): FiguresByUid {
  const settled = useSettled(visible.slice(0, MOST).join(" "), SETTLED_MS);
  const uid = settled.split(" ").filter(Boolean);
  const known = useRef(NONE);
  const changes = runs.some(({ phase, finishedAt }) => !FINAL.has(phase) || serverNow() - Date.parse(finishedAt) < LATE_MS);
  const found = useQuery({
    queryKey: ["run-figures", all ?? settled],
    queryFn: async () => {
      if (all !== null) return (known.current = await readFigures(all));
      const { figures } = contentOf(await client.GET("/v1/run-figures", { params: { query: { uid } } }));
      return (known.current = merged(known.current, uid, figures));
    },
    enabled: uid.length > 0,
    refetchInterval: changes ? REFRESH_MS : false,
  });
  return found.data ?? known.current;
}

/** Return the last figures of all runs that the parameters of the Web API's list select. */
export async function readFigures(all: string): Promise<FiguresByUid> {
  const { figures } = contentOf(await client.GET("/v1/run-figures", { params: { query: queryOf(all) } }));
  return new Map(Object.entries(figures));
}

function queryOf(parameters: string) {
  const given = new URLSearchParams(parameters);
  return { owner: given.getAll("owner"), team: given.getAll("team") };
}

/** Return the known figures with the newest ones of the runs that were asked for. */
function merged(known: FiguresByUid, asked: readonly string[], newest: Readonly<Record<string, Figures>>): FiguresByUid {
  const next = new Map(known);
  for (const uid of asked) next.delete(uid);
  for (const [uid, figures] of Object.entries(newest)) next.set(uid, figures);
  return next;
}
