import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, Refused, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { faultIn } from "../form/faults";
import { killProgramsCommand, programsTold, signalsFor, type Signal } from "./processes";
import { SignalChoice } from "./SignalChoice";

interface Properties {
  run: Pick<Run, "namespace" | "name" | "uid">;
  close: () => void;
}

/** Choose a signal for the programs of all members or of some ranks, and read which of them got it. */
export function ProgramSignalDialog({ run: { namespace, name, uid }, close }: Properties) {
  const [typed, setTyped] = useState("");
  const ranks = typed.replace(/\s/g, "");
  const offered = signalsFor(ranks);
  const [wanted, setWanted] = useState<Signal>("USR1");
  const signal = offered.some(([known]) => known === wanted) ? wanted : "USR1";
  const sending = useMutation({
    mutationFn: async () => contentOf(await client.POST("/v1/runs/{namespace}/{name}/signal-programs", { params: { path: { namespace, name }, header: { "If-Match": uid } }, body: { signal, ranks } })),
  });
  const fault = sending.error instanceof Refused ? faultIn(sending.error.faults, "ranks") : "";
  const told = sending.data && programsTold(sending.data);
  return (
    <Dialog open onClose={close} aria-labelledby="signal-programs-title" fullWidth slotProps={{ paper: { sx: { overflowWrap: "anywhere" } } }}>
      <DialogTitle id="signal-programs-title">Send a signal to the programs of {name}</DialogTitle>
      <DialogContent sx={{ display: "grid", gap: 3 }}>
        <TextField
          size="small"
          label="Ranks"
          value={typed}
          onChange={(event) => {
            sending.reset();
            setTyped(event.target.value);
          }}
          error={fault !== ""}
          helperText={fault || "Write 0-3,7, for example. If you leave it empty, all members that run get it."}
          slotProps={{ htmlInput: { maxLength: 1000 } }}
          sx={{ mt: 1 }}
        />
        <SignalChoice
          signals={offered}
          signal={signal}
          choose={(chosen) => {
            sending.reset();
            setWanted(chosen);
          }}
        />
        <Typography color="textSecondary">The first process of each member gets it, and the run goes on. To end the run, use Stop.</Typography>
        <CopyLine text={killProgramsCommand(name, namespace, ranks, signal)} />
        {sending.error && !fault && <Problem error={sending.error} />}
        {told?.done && (
          <Alert severity="success" role="status">
            {told.done}
          </Alert>
        )}
        {told?.failed.map((sentence) => (
          <Alert key={sentence} severity="error">
            {sentence}
          </Alert>
        ))}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>Close</Button>
        <Button color="error" onClick={() => sending.mutate()} disabled={sending.isPending}>
          Send {signal}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
