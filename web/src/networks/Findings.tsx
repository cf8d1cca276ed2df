import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { Schemas } from "../api/client";

/** The server's findings about the registry. */
export function Findings({ findings, title = "Possible mistakes" }: { findings: readonly Pick<Schemas["Finding"], "message">[]; title?: string }) {
  if (!findings.length) return null;
  return (
    <Box component="section" aria-label={title} sx={{ my: 3 }}>
      <Typography variant="h2" gutterBottom>
        {title}
      </Typography>
      <Box component="ul" sx={{ m: 0, pl: 5, overflowWrap: "anywhere" }}>
        {findings.map(({ message }) => (
          <li key={message}>{message}</li>
        ))}
      </Box>
    </Box>
  );
}
