import Button from "@mui/material/Button";
import { Link } from "react-router";
import { useMayStart } from "../verbs/useMayChange";

/** Leads to the form for a new run, if the person may start runs. */
export function StartButton() {
  if (!useMayStart()) return null;
  return (
    <Button component={Link} to="/start" variant="contained" sx={{ mt: 4 }}>
      Start a run
    </Button>
  );
}
