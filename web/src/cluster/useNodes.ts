import { useEffect, useMemo, useState } from "react";
import { brokenAt, followChanges, heardAt, NO_LINK, type Link } from "../api/changes";
import { client, contentOf, type Schemas } from "../api/client";
import { changed, keyed, type Rows } from "../api/rows";

export type NodeRow = Schemas["NodeTableRow"];

export interface LiveNodes extends Link {
  /** All nodes; null until the server has sent them. */
  nodes: NodeRow[] | null;
}

const AGAIN_MS = 3_000;
const nameOf = ({ name }: { name: string }) => name;

/** Follow all nodes: one compressed answer, then what changes. */
export function useNodes(): LiveNodes {
  const [rows, setRows] = useState<Rows<NodeRow> | null>(null);
  const [link, setLink] = useState<Link>(NO_LINK);

  useEffect(() => {
    let close = () => {};
    let ended = false;
    const broken = (error: Error) => setLink((held) => brokenAt(held, Date.now(), error));
    const start = async () => {
      try {
        const table = await readAll();
        if (ended) return;
        setRows(keyed(table.items, nameOf));
        setLink(heardAt(Date.now()));
        const reader = {
          snapshot: (data: string) => setRows(keyed((JSON.parse(data) as Schemas["NodeSnapshot"]).items, nameOf)),
          changes: (data: string) =>
            setRows((held) => changed(held ?? new Map(), JSON.parse(data) as Schemas["NodeChanges"], nameOf)),
          heard: () => setLink(heardAt(Date.now())),
          broken,
        };
        close = followChanges("/v1/nodes/changes", reader, { since: table.version });
      } catch (error) {
        if (ended) return;
        broken(error as Error);
        const timer = setTimeout(() => void start(), AGAIN_MS);
        close = () => clearTimeout(timer);
      }
    };
    void start();
    return () => {
      ended = true;
      close();
    };
  }, []);

  const nodes = useMemo(() => rows && [...rows.values()], [rows]);
  return { nodes, ...link };
}

async function readAll(): Promise<Schemas["NodeTable"]> {
  const answer = contentOf(await client.GET("/v1/nodes", { params: { query: { fields: ["summary"] } } }));
  return answer as Schemas["NodeTable"];
}
