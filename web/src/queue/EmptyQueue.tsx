import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { StartButton } from "../runs/StartButton";
import { CopyLine } from "../common/CopyLine";

/** The replacement for a queue without runs. `any`: there are runs, but the filter excludes all of them. */
export function EmptyQueue({ any }: { any: boolean }) {
  if (any) return <Typography color="textSecondary">No run fits the filter.</Typography>;
  return (
    <Box sx={{ maxWidth: 640 }}>
      <Typography gutterBottom>No run waits, and none has nodes: what you start now begins at once if it fits. Ask before you start it:</Typography>
      <CopyLine text="kaji what-if --gpus 8 -n 2 python:3.11" />
      <StartButton />
    </Box>
  );
}
