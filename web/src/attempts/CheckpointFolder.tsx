import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { ShownRun } from "../run/findRun";
import { isFinal } from "../run/status";
import { CopyLine } from "../words/CopyLine";

/** Where the run's checkpoints are, and how to get them. The server has no access to the folder: only members mount it. */
export function CheckpointFolder({ run }: { run: ShownRun }) {
  const path = run.spec.checkpoint?.path;
  if (!path) return null;
  const isThere = !run.isRemoved && !isFinal(run);
  return (
    <Box component="section" sx={{ mt: 4 }}>
      <Typography component="h2" sx={{ fontWeight: 600 }}>
        Checkpoint folder
      </Typography>
      <Typography sx={{ mb: 2, overflowWrap: "anywhere" }}>
        {isThere
          ? `All members share ${path}. This server cannot list it, since only members mount it; while one runs, you can copy it:`
          : `All members shared ${path}. This server cannot list it, since only members mount it. The next attempt finds it again if you resume the run.`}
      </Typography>
      {isThere && <CopyLine text={`kaji cp -N ${run.namespace} ${run.title}:${path} .`} />}
    </Box>
  );
}
