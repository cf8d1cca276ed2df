import Button from "@mui/material/Button";
import ListItemText from "@mui/material/ListItemText";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../api/client";
import { useMyTeams } from "../runs/filter/useMyTeams";
import type { Spec } from "./form";
import { offered, type Templates as All } from "./templates";

/** Return all templates of the policy. */
export function useTemplates(): All {
  const policy = useQuery({
    queryKey: ["policy"],
    queryFn: async () => contentOf(await client.GET("/v1/policy")).policy as { templates?: All },
    staleTime: 60_000,
  });
  return policy.data?.templates ?? NONE;
}

const NONE: All = {};

/** The templates that the operators offer to the person's teams, to begin with one. */
export function Templates({ choose }: { choose: (spec: Spec) => void }) {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const teams = useMyTeams();
  const templates = offered(useTemplates(), teams ?? []);
  if (!templates.length) return null;
  return (
    <>
      <Button onClick={(event) => setAnchor(event.currentTarget)} aria-haspopup="menu">
        Begin with a template
      </Button>
      <Menu anchorEl={anchor} open={anchor !== null} onClose={() => setAnchor(null)}>
        {templates.map(({ name, description, spec }) => (
          <MenuItem
            key={name}
            onClick={() => {
              choose(spec);
              setAnchor(null);
            }}
          >
            <ListItemText primary={name} secondary={description} />
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}
