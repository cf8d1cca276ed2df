import Box from "@mui/material/Box";
import Dialog from "@mui/material/Dialog";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import Typography from "@mui/material/Typography";
import { useEffect, useState } from "react";
import { isTyping, KEYS } from "./keys";

/** The list of all keys, which ? opens. */
export function KeysDialog() {
  const [isOpen, setIsOpen] = useState(false);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key === "?" && !isTyping(event)) setIsOpen(true);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <Dialog open={isOpen} onClose={() => setIsOpen(false)} aria-labelledby="keys-title">
      <DialogTitle id="keys-title">Keys</DialogTitle>
      <DialogContent tabIndex={0}>
        {KEYS.map(({ page, keys }) => (
          <Box key={page} component="section" aria-label={page} sx={{ mb: 4 }}>
            <Typography variant="h2" component="h3" gutterBottom>
              {page}
            </Typography>
            <Box component="dl" sx={{ display: "grid", gridTemplateColumns: "112px 1fr", gap: 2, m: 0 }}>
              {keys.map(([key, meaning]) => (
                <Box key={key} sx={{ display: "contents" }}>
                  <dt>
                    <kbd>{key}</kbd>
                  </dt>
                  <Box component="dd" sx={{ m: 0 }}>
                    {meaning}
                  </Box>
                </Box>
              ))}
            </Box>
          </Box>
        ))}
      </DialogContent>
    </Dialog>
  );
}
