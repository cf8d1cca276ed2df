import Typography from "@mui/material/Typography";
import type { Marks } from "./series";

/** The meaning of the marks in the plots, if there are any. */
export function Marked({ marks: { attempts, checkpoints } }: { marks: Marks }) {
  const words = [...(attempts.length ? ["Dashed line: another attempt begins."] : []), ...(checkpoints.length ? ["▲: a checkpoint was written."] : [])];
  return words.length > 0 && <Typography color="textSecondary" sx={{ mb: 3 }}>{words.join(" ")}</Typography>;
}
