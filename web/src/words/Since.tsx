import Typography from "@mui/material/Typography";
import { faultOf, sentence } from "./sentence";
import { duration } from "./times";
import { useNow } from "./useNow";

/** Since when what a page shows is not current, while there is an error. `currentAt` is in milliseconds. */
export function Since({ currentAt, error }: { currentAt: number; error: Error | null }) {
  const now = useNow(1, Date.now); // `currentAt` is of this clock
  if (!currentAt || !error) return null;
  return (
    <Typography role="status" color="warning">
      {sentence(faultOf(error))} This is {duration((now - currentAt) / 1_000)} old.
    </Typography>
  );
}
