import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { ReactNode } from "react";

interface Properties {
  name: string;
  description: string;
  /** The values at the pointer, or the newest ones. */
  words: string;
  /** Their time. */
  title?: string;
  /** What the plot does not show. */
  notes?: readonly string[];
  children: ReactNode;
}

/** The heading of a plot, with the values at the pointer. */
export function PlotFrame({ name, description, words, title, notes = [], children }: Properties) {
  return (
    <Box component="section" sx={{ minWidth: 0 }}>
      <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 3 }}>
        <Typography component="h2" sx={{ fontWeight: 600 }} title={description}>
          {name}
        </Typography>
        <Typography color="textSecondary" title={title}>
          {words}
        </Typography>
      </Box>
      {notes.map((note) => (
        <Typography key={note} color="textSecondary" sx={{ fontSize: 12.5 }}>
          {note}
        </Typography>
      ))}
      {children}
    </Box>
  );
}
