import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import { Refused } from "../api/client";
import { faultOf } from "../words/sentence";

/** An error in the server's own words, shown in place of the content that could not be loaded. */
export function Problem({ error, retry }: { error: Error; retry?: () => void }) {
  const hint = error instanceof Refused ? error.hint : "Is it running? This page tries again by itself.";
  return (
    <Alert
      severity="error"
      variant="outlined"
      action={
        retry && (
          <Button color="inherit" size="small" onClick={retry}>
            Try again
          </Button>
        )
      }
    >
      {faultOf(error)}
      {hint && <div>{hint}</div>}
    </Alert>
  );
}
