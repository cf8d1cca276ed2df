import Typography from "@mui/material/Typography";
import { faultOf, sentence } from "../sentence";
import { duration } from "./times";
import { useNow } from "./useNow";

/** The notice at the lower edge of the window: beside a narrow list there is no room that it could take without moving the list. */
const FLOATING = { position: "fixed", bottom: 12, zIndex: 2, border: 1, borderColor: "divider", borderRadius: 1, bgcolor: "background.paper", px: 3, py: 1 } as const;

/** Since when what a page shows is not current, while there is an error. `currentAt` is in milliseconds. */
export function Since({ currentAt, error, floats = false }: { currentAt: number; error: Error | null; floats?: boolean }) {
  const now = useNow(1, Date.now); // `currentAt` is of this clock
  if (!currentAt || !error) return null;
  return (
    <Typography role="status" color="warning" sx={floats ? FLOATING : undefined}>
      {sentence(faultOf(error))} This is {duration((now - currentAt) / 1_000)} old.
    </Typography>
  );
}
