import Button from "@mui/material/Button";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, type Run } from "../api/client";
import { Age } from "../words/times/Age";

const SHOWN = 8;

/** Return my newest runs. */
export function useRecent(): readonly Run[] {
  const runs = useQuery({
    queryKey: ["recent"],
    queryFn: async () => {
      const query = { owner: ["@me"], sort: "-createdAt" as const, limit: SHOWN };
      return contentOf(await client.GET("/v1/runs", { params: { query } })).items as Run[];
    },
  });
  return runs.data ?? NONE;
}

const NONE: readonly Run[] = [];

/** My newest runs, to begin with a copy of one. */
export function Recent({ choose }: { choose: (run: Run) => void }) {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const items = useRecent();
  if (!items.length) return null;
  return (
    <>
      <Button onClick={(event) => setAnchor(event.currentTarget)} aria-haspopup="menu">
        Copy one of my runs
      </Button>
      <Menu anchorEl={anchor} open={anchor !== null} onClose={() => setAnchor(null)}>
        {items.map((run) => (
          <MenuItem
            key={run.uid}
            onClick={() => {
              choose(run);
              setAnchor(null);
            }}
          >
            {run.name}&ensp;
            <Age time={run.createdAt} />
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}
