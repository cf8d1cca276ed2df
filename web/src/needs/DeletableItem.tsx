import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { Problem } from "../app/Problem";

interface Properties {
  name: string;
  children: ReactNode;
  /** What is lost, in a sentence. */
  loss: string;
  /** Delete it; undefined if it can't be deleted here. */
  remove?: () => Promise<void>;
}

/** An item of a list that can be deleted, after a question that names what is lost. */
export function DeletableItem({ name, children, loss, remove }: Properties) {
  const [asking, setAsking] = useState(false);
  const removal = useMutation({ mutationFn: async () => remove?.() });
  return (
    <Box component="li" sx={{ borderBottom: 1, borderColor: "divider", display: "flex", flexWrap: "wrap", alignItems: "start", gap: 2 }}>
      <Box sx={{ flex: "1 1 240px", minWidth: 0 }}>
        {children}
        {asking && <Typography>{loss}</Typography>}
        {removal.error && <Problem error={removal.error} />}
      </Box>
      {!remove ? null : asking ? (
        <>
          <Button size="small" color="error" disabled={removal.isPending} onClick={() => removal.mutate()}>
            Delete it
          </Button>
          <Button size="small" onClick={() => setAsking(false)}>
            Keep it
          </Button>
        </>
      ) : (
        <Button size="small" aria-label={`Delete ${name}`} onClick={() => setAsking(true)}>
          Delete
        </Button>
      )}
    </Box>
  );
}
