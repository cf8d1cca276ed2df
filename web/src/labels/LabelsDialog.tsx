import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import TextField from "@mui/material/TextField";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, ensureDone, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { lineOf } from "../words/commands";
import { changeOf, labelsIn, pairsOf } from "./labels";

/** A dialog that changes the labels of a run: one a line. */
export function LabelsDialog({ run, close }: { run: Run; close: () => void }) {
  const [text, setText] = useState(() => pairsOf(run.labels).join("\n"));
  const change = changeOf(run.labels, labelsIn(text));
  const queries = useQueryClient();
  const saving = useMutation({
    mutationFn: async (body: NonNullable<typeof change>) => {
      const path = { namespace: run.namespace, name: run.name };
      ensureDone(await client.POST("/v1/runs/{namespace}/{name}/labels", { params: { path }, body }));
    },
    onSuccess: async () => {
      close();
      await queries.invalidateQueries();
    },
  });
  return (
    <Dialog open onClose={close} fullWidth maxWidth="sm" aria-labelledby="labels-title">
      <DialogTitle id="labels-title">
        Labels of <bdi>{run.name}</bdi>
      </DialogTitle>
      {/* Room for the label on the edge of the field. */}
      <DialogContent sx={{ display: "grid", gap: 3, "&&": { pt: 2 } }}>
        <TextField
          autoFocus
          multiline
          minRows={4}
          label="Labels"
          placeholder="stage=final"
          value={text}
          onChange={(event) => setText(event.target.value)}
          helperText="One a line: key=value. The list, the search and history find the run by them. Its Pods keep those with which it was submitted."
        />
        {change && <CopyLine wraps text={lineOf("label", { "-N": run.namespace }, [run.name, ...pairsOf(change.set), ...change.remove.map((key) => `${key}-`)])} />}
        {saving.error && <Problem error={saving.error} />}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>Cancel</Button>
        <Button variant="contained" disabled={!change || saving.isPending} onClick={() => change && saving.mutate(change)}>
          Save
        </Button>
      </DialogActions>
    </Dialog>
  );
}
