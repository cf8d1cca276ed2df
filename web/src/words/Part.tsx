import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { ReactNode } from "react";

/** A titled list in a panel, whose items are `li` elements; `empty` stands where there are none. */
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

/** What is less important, on a line of its own. */
export function Faint({ children }: { children: ReactNode }) {
  return <Box sx={{ color: "text.secondary" }}>{children}</Box>;
}
