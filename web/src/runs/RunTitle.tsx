import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import type { Phase } from "../api/client";
import { StateMark } from "../states/StateMark";
import type { Finding } from "../states/states";

interface Properties {
  title: string;
  phase: Phase;
  finding: Finding | "";
  /** Whether it stands beside the list of runs, whose title comes before. */
  isPart?: boolean;
}

/** The name and the state of a run. It takes the room that is left in its line, so that what stands beside it begins at the left in a line of its own. */
export function RunTitle({ title, phase, finding, isPart = false }: Properties) {
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4, rowGap: 1, flex: "1 1 auto", minWidth: 0 }}>
      <Typography variant="h1" component={isPart ? "h2" : "h1"} dir="auto" sx={{ overflowWrap: "anywhere", minWidth: 0 }}>
        {title}
      </Typography>
      <StateMark phase={phase} finding={finding} />
    </Box>
  );
}
