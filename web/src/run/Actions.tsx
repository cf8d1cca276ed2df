import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useNavigate } from "react-router";
import { Problem } from "../app/Problem";
import { perform } from "../runs/perform";
import { useMayChange, useMayStart } from "../runs/useMayChange";
import { VERB_WORDS, type Verb } from "../runs/verbs";
import type { ShownRun } from "./findRun";
import { isFinal } from "./status";

/** The words of the button that opens a program: its port only if the run has several. */
function programWords(path: string, all: readonly string[]): string {
  return all.length === 1 ? "Open" : `Open ${path.split("/").at(-2) ?? ""}`;
}

/** What the person may do with a run. Deleting is asked back, since the run's log goes with it. */
export function Actions({ run }: { run: ShownRun }) {
  const mayChange = useMayChange()(run.namespace);
  const mayStart = useMayStart();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const [asking, setAsking] = useState(false);
  const action = useMutation({
    mutationFn: (verb: Verb) => perform(verb, run),
    onSuccess: async (_, verb) => {
      setAsking(false);
      if (verb === "delete") await navigate("/runs");
      await queries.invalidateQueries();
    },
  });
  const verbs: Verb[] = run.isRemoved || !mayChange ? [] : isFinal(run) ? ["resume", "delete"] : ["stop", "delete"];
  return (
    <>
      {action.error && <Problem error={action.error} />}
      {!run.isRemoved &&
        mayChange &&
        run.programs?.map((path) => (
          <Button
            key={path}
            size="small"
            variant="contained"
            href={path}
            target="_blank"
            rel="noopener"
            disabled={run.deleting}
          >
            {programWords(path, run.programs ?? [])}
          </Button>
        ))}
      {run.spec.array && (
        <Button
          size="small"
          variant="outlined"
          component={Link}
          to={`/sweeps/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`}
        >
          Results of the sweep
        </Button>
      )}
      {mayStart && (
        <Button
          size="small"
          variant="outlined"
          component={Link}
          to={`/start?from=${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`}
        >
          Copy and change
        </Button>
      )}
      {verbs.map((verb) => (
        <Button
          key={verb}
          size="small"
          variant="outlined"
          color={verb === "delete" ? "error" : "primary"}
          disabled={action.isPending || run.deleting}
          onClick={() => (verb === "delete" ? setAsking(true) : action.mutate(verb))}
        >
          {VERB_WORDS[verb].ask}
        </Button>
      ))}
      <Dialog open={asking} onClose={() => setAsking(false)} aria-labelledby="delete-title">
        <DialogTitle id="delete-title">Delete {run.name}?</DialogTitle>
        <DialogContent>
          {isFinal(run)
            ? "The run leaves the list. History keeps its end; its checkpoint stays."
            : "The run is stopped: work since its last checkpoint is lost. History keeps its end; its checkpoint stays."}
        </DialogContent>
        <DialogActions>
          <Button onClick={() => setAsking(false)}>Keep it</Button>
          <Button color="error" onClick={() => action.mutate("delete")}>
            Delete
          </Button>
        </DialogActions>
      </Dialog>
    </>
  );
}
