import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import { CopyLine } from "../common/CopyLine";
import { sentence } from "../words/sentence";

/** That no controller is at work, for how long, and how to see that elsewhere. */
export function NoController({ says }: { says: string }) {
  return (
    <Alert severity="warning" variant="outlined" sx={{ mb: 3, "& .MuiAlert-message": { flex: 1, minWidth: 0 } }}>
      {sentence(says)} Running programs go on. The command line tells it, too; operators find what to check in the logs
      of kaji controller:
      <Box sx={{ mt: 2, maxWidth: 400 }}>
        <CopyLine text="kaji version" />
      </Box>
    </Alert>
  );
}
