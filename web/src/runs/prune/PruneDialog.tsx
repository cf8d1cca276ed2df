import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import Checkbox from "@mui/material/Checkbox";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import FormControlLabel from "@mui/material/FormControlLabel";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useState } from "react";
import { client, ensureDone } from "../../api/client";
import { CopyLine } from "../../common/CopyLine";
import { performEach, summary, type Outcome } from "../../verbs/verbs";
import { useNow } from "../../words/times/useNow";
import type { Row } from "../data/rows";
import { AGES, commandOf, pruned, type Age, type Choice } from "./prune";

const MOST_NAMED = 10;
/** MUI takes no empty text as the value of a choice. */
const ANY = "any";

interface Properties {
  /** All of the person's runs. */
  mine: readonly Row[];
  close: () => void;
}

/** Choose which of one's own ended runs are deleted, see which these are, and delete them. */
export function PruneDialog({ mine, close }: Properties) {
  const now = useNow(60);
  const [choice, setChoice] = useState<Choice>({ olderThan: "7d", checkpoints: false });
  const [progress, setProgress] = useState<{ all: number; outcomes: readonly Outcome[] } | null>(null);
  const runs = pruned(mine, choice.olderThan, now);
  const isBusy = progress !== null && progress.outcomes.length < progress.all;
  const remove = async () => {
    const outcomes: Outcome[] = [];
    setProgress({ all: runs.length, outcomes });
    await performEach(runs, (run) => deleteRun(run, choice.checkpoints), (outcome) => {
      outcomes.push(outcome);
      setProgress({ all: runs.length, outcomes: [...outcomes] });
    });
  };
  const failed = progress?.outcomes.filter(({ error }) => error) ?? [];
  return (
    <Dialog open onClose={close} aria-labelledby="prune-title" fullWidth slotProps={{ paper: { sx: { overflowWrap: "anywhere" } } }}>
      <DialogTitle id="prune-title">Delete my runs that have ended</DialogTitle>
      <DialogContent sx={{ display: "grid", gap: 3 }}>
        <TextField select size="small" label="Ended" value={choice.olderThan || ANY} onChange={({ target }) => setChoice({ ...choice, olderThan: (target.value === ANY ? "" : target.value) as Age })} disabled={isBusy} sx={{ mt: 2 }}>
          {Object.entries(AGES).map(([age, words]) => (
            <MenuItem key={age} value={age || ANY}>
              {words}
            </MenuItem>
          ))}
        </TextField>
        <FormControlLabel control={<Checkbox checked={choice.checkpoints} onChange={({ target }) => setChoice({ ...choice, checkpoints: target.checked })} disabled={isBusy} />} label="Delete their checkpoints, too" />
        <Typography role="status">
          {runs.length ? (
            <>
              {runs.length === 1 ? "1 run: " : `${runs.length} runs: `}
              {runs.slice(0, MOST_NAMED).map(({ uid, name }, index) => (
                <span key={uid}>
                  {index > 0 && ", "}
                  <bdi>{name}</bdi>
                </span>
              ))}
              {runs.length > MOST_NAMED && ` and ${runs.length - MOST_NAMED} more`}. Their logs go with them; history keeps their ends, and their checkpoints {choice.checkpoints ? "are deleted for good" : "stay"}.
            </>
          ) : (
            "No run of yours ended then."
          )}
        </Typography>
        <CopyLine text={commandOf(choice)} />
        {progress && (
          <Alert severity={isBusy ? "info" : failed.length ? "error" : "success"} role="status">
            {isBusy ? `Deleting ${progress.outcomes.length} of ${progress.all} …` : summary("delete", progress.outcomes)}
            {failed.map(({ run, error }) => (
              <div key={run.uid}>
                <bdi>{run.name}</bdi>: {error?.message}
              </div>
            ))}
          </Alert>
        )}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>{progress && !isBusy ? "Close" : "Keep them"}</Button>
        <Button color="error" onClick={() => void remove()} disabled={isBusy || !runs.length}>
          Delete {runs.length === 1 ? "1 run" : `${runs.length} runs`}
        </Button>
      </DialogActions>
    </Dialog>
  );
}

async function deleteRun({ namespace, name, uid }: Row, checkpoint: boolean): Promise<void> {
  ensureDone(await client.DELETE("/v1/runs/{namespace}/{name}", { params: { path: { namespace, name }, header: { "If-Match": uid }, query: { checkpoint } } }));
}
