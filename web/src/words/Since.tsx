import Typography from "@mui/material/Typography";
import { duration } from "./times";
import { useNow } from "./useNow";

const STALE_SECONDS = 15;

/** Since when a list is not current, if the server does not answer. */
export function Since({ query }: { query: { dataUpdatedAt: number; error: Error | null } }) {
  const now = useNow();
  const age = (now - query.dataUpdatedAt) / 1_000;
  if (!query.dataUpdatedAt || (!query.error && age < STALE_SECONDS)) return null;
  return (
    <Typography role="status" color="warning.main">
      The server does not answer. This is {duration(age)} old.
    </Typography>
  );
}
