import { useQuery } from "@tanstack/react-query";
import { useMemo, useRef, useState } from "react";
import { client, contentOf, type Run } from "../api/client";
import { isFinal } from "../run/data/status";
import { trialOf, type Result, type Trial } from "./trials/trials";

const PAGE = 1_000;
const REFRESH_MS = 3_000;
const ENDED: readonly string[] = ["Succeeded", "Failed", "NotRun"];

interface Page {
  trials: Trial[];
  next: string;
  incomplete: string;
}

/** Return the results of all members of a sweep, refreshed while it runs; at first those of the first page, while the others are read. Pages whose members have all ended are read once. */
export function useResults(run: Run) {
  const { namespace, name, uid, status } = run;
  const isOver = isFinal(run);
  const key = `${uid} ${status.resumes ?? 0} ${isOver}`;
  const held = useRef<{ key: string; pages: Page[] }>({ key, pages: [] });
  const [first, setFirst] = useState<{ key: string; page: Page } | null>(null);
  const results = useQuery({
    queryKey: ["results", key],
    queryFn: async () => {
      const before = held.current.key === key ? held.current.pages : [];
      const pages: Page[] = [];
      for (let next = ""; pages.length === 0 || next; next = pages.at(-1)?.next ?? "") {
        const known = before[pages.length];
        pages.push(known?.trials.every(({ state }) => ENDED.includes(state)) && !known.incomplete ? known : await read(next));
        if (pages.length === 1 && pages[0]?.next && !before.length) setFirst({ key, page: pages[0] });
      }
      held.current = { key, pages };
      return pages;
    },
    refetchInterval: isOver ? false : REFRESH_MS,
    placeholderData: (previous) => previous,
    gcTime: 0,
    structuralSharing: false, // pages that did not change are the same objects already
  });

  const read = async (next: string): Promise<Page> => {
    const query = { limit: PAGE, ...(next && { continue: next }) };
    const answer = contentOf(await client.GET("/v1/runs/{namespace}/{name}/results", { params: { path: { namespace, name }, query } }));
    return { trials: answer.items.map((row: Result) => trialOf(row)), next: answer.continue ?? "", incomplete: answer.incomplete ?? "" };
  };

  const begun = first?.key === key ? first.page.trials : null;
  const trials = useMemo(() => results.data?.flatMap((page) => page.trials) ?? begun, [results.data, begun]);
  const incomplete = results.data?.find((page) => page.incomplete)?.incomplete ?? "";
  return { ...results, trials, incomplete, isPartial: !results.data && trials !== null };
}
