import Box from "@mui/material/Box";
import Chip from "@mui/material/Chip";
import type { ReactNode } from "react";
import type { Pick } from "./picks";

interface Properties {
  /** What can be chosen here, for screen readers. */
  label: string;
  picks: readonly Pick[];
  /** Whether the field has it already; undefined if a choice replaces the field's text. */
  isPicked?: (pick: Pick) => boolean;
  choose: (pick: Pick) => void;
  children?: ReactNode;
}

/** Suggestions below a field, as buttons. */
export function Picks({ label, picks, isPicked, choose, children }: Properties) {
  if (!picks.length && !children) return null;
  return (
    <Box role="group" aria-label={label} sx={{ gridColumn: "1 / -1", display: "flex", flexWrap: "wrap", alignItems: "center", gap: 2, mt: -2, minWidth: 0 }}>
      {picks.map((pick) => {
        const picked = isPicked?.(pick);
        return (
          <Chip
            key={pick.text}
            size="small"
            variant={picked ? "filled" : "outlined"}
            label={picked ? `✓ ${pick.word}` : pick.word}
            title={pick.title}
            {...(picked !== undefined && { "aria-pressed": picked })}
            onClick={() => choose(pick)}
            sx={{ maxWidth: "100%" }}
          />
        );
      })}
      {children}
    </Box>
  );
}
