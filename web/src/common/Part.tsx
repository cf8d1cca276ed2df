import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { ReactNode } from "react";

/** A titled list in a panel, with `li` elements as items; `empty` is shown if there are none. */
export function Part({ title, empty = "", children }: { title: string; empty?: string; children: ReactNode }) {
  const isEmpty = Array.isArray(children) && !children.length;
  return (
    <Box sx={{ my: 3 }}>
      <Typography variant="h3" sx={{ fontSize: 14, fontWeight: 600 }}>
        {title}
      </Typography>
      {isEmpty ? <Typography color="textSecondary">{empty}</Typography> : <PlainList>{children}</PlainList>}
    </Box>
  );
}

/** A list without marks. */
export function PlainList({ children }: { children: ReactNode }) {
  return (
    <Box component="ul" sx={{ listStyle: "none", m: 0, p: 0, overflowWrap: "anywhere", "& li": { py: 0.5 } }}>
      {children}
    </Box>
  );
}

/** A less important text on a line of its own. */
export function Faint({ children }: { children: ReactNode }) {
  return <Box sx={{ color: "text.secondary" }}>{children}</Box>;
}
