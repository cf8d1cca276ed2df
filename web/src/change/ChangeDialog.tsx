import Dialog from "@mui/material/Dialog";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import MenuItem from "@mui/material/MenuItem";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, ensureDone } from "../api/client";
import { ShortFormField, ShortForm } from "../form/ShortForm";
import type { ShownRun } from "../run/data/findRun";
import { isFinal } from "../run/data/status";
import { CopyLine } from "../common/CopyLine";
import { bodyOf, changeableOf, commandOf, FIELDS, type Changeable } from "./changes";

/** Policy's default: an empty text, which MUI does not take as the value of a choice. */
const DEFAULT = "default";

/** A form with the fields of a run that can change while it waits or runs. The server checks them as it checks a new run. */
export function ChangeDialog({ run, close }: { run: ShownRun; close: () => void }) {
  const [before] = useState(() => changeableOf(run.spec));
  const [after, setAfter] = useState(before);
  const queries = useQueryClient();
  const { namespace, name } = run;
  const body = bodyOf(before, after);
  const sent = useMutation({
    mutationFn: async () => ensureDone(await client.PATCH("/v1/runs/{namespace}/{name}", { params: { path: { namespace, name } }, body })),
    onSuccess: async () => {
      close();
      await queries.invalidateQueries();
    },
  });
  const change = (part: Partial<Changeable>) => {
    sent.reset(); // what was wrong was about the text before
    setAfter((known) => ({ ...known, ...part }));
  };
  const text = (field: keyof Changeable) => ({ name: field, value: after[field], change: (typed: string) => change({ [field]: typed }) });
  const isSweep = before.array !== "";
  return (
    <Dialog open onClose={close} aria-labelledby="change-title" fullWidth slotProps={{ paper: { sx: { overflowWrap: "anywhere" } } }}>
      <DialogTitle id="change-title">
        Change the limits of <bdi>{name}</bdi>
      </DialogTitle>
      <DialogContent>
        <Typography gutterBottom>
          {isFinal(run) ? "The change counts once it is resumed." : "Its members run on, and it keeps its place in the queue."} An empty field stands for the policy's default.
        </Typography>
        <ShortForm label="Limits" sent={sent} fields={FIELDS} send="Change" isComplete={Object.keys(body).length > 0} close={close}>
          <ShortFormField
            {...text("timeLimit")}
            label="Time limit"
            helperText={isSweep ? "Such as 12h, of each member that starts from now on" : "Such as 7d, counted from its start"}
            maxLength={32}
            autoFocus
          />
          <ShortFormField
            {...text("priority")}
            value={after.priority || DEFAULT}
            change={(chosen) => change({ priority: chosen === DEFAULT ? "" : chosen })}
            label="Priority"
            maxLength={16}
            select
          >
            {[DEFAULT, "high", "normal", "low"].map((word) => (
              <MenuItem key={word} value={word}>
                {word === DEFAULT ? "policy's default" : word}
              </MenuItem>
            ))}
          </ShortFormField>
          <ShortFormField {...text("restarts")} label="Restarts" helperText="How often in all its program may fail and start again" maxLength={7} />
          {isSweep && <ShortFormField {...text("array")} label="Indices" helperText="More add members, fewer remove some; %64: 64 at once" maxLength={4096} />}
        </ShortForm>
        {Object.keys(body).length > 0 && <CopyLine text={commandOf(namespace, name, before, after)} />}
      </DialogContent>
    </Dialog>
  );
}
