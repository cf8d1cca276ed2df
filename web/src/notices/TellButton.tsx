import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import { Link } from "react-router";
import { serverNow } from "../api/clock";
import type { ShownRun } from "../run/data/findRun";
import { isFinal } from "../run/data/status";
import { MOST_WATCHED, withoutRun, withRun } from "./notices";
import { usePermission } from "./usePermission";
import { useWanted } from "./useWanted";

/** The button by which a person wants to be told when a run ends. */
export function TellButton({ run }: { run: ShownRun }) {
  const { user, wanted, change } = useWanted();
  const { refusal, ask } = usePermission();
  if (run.isRemoved || isFinal(run)) return null;
  const { uid, namespace, name, owner } = run;
  const isMine = owner === user;
  if (wanted.all && isMine) {
    return (
      <Button size="small" variant="outlined" component={Link} to="/mine" title="This browser tells you ends and restarts of all of your runs. Change it in Mine.">
        Tells you when it ends
      </Button>
    );
  }
  if (uid in wanted.runs) {
    return (
      <Button size="small" variant="outlined" onClick={() => change((before) => withoutRun(before, uid))} title="This browser tells you when it ends or restarts, while a page of Kajitori is open">
        Do not tell me its end
      </Button>
    );
  }
  const isFull = Object.keys(wanted.runs).length >= MOST_WATCHED;
  return (
    <>
      <Button size="small" variant="outlined" disabled={isFull} onClick={() => ask(() => change((before) => withRun(before, uid, { namespace, name, isMine, at: serverNow() })))} title="By a notice of this browser, also when it restarts, while a page of Kajitori is open">
        Tell me when it ends
      </Button>
      {refusal && (
        <Alert severity="warning" variant="outlined" role="status">
          {refusal}
        </Alert>
      )}
    </>
  );
}
