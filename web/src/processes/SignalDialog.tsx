import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, type Run } from "../api/client";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { killCommand, SIGNALS, type Process, type Signal } from "./processes";
import { SignalChoice } from "./SignalChoice";

interface Properties {
  run: Pick<Run, "namespace" | "name">;
  rank: number;
  process: Process;
  close: () => void;
  /** The process got the signal. */
  sent: (signal: Signal) => void;
}

/** Choose a signal for one process, and read what it does before it is sent. */
export function SignalDialog({ run: { namespace, name }, rank, process, close, sent }: Properties) {
  const [signal, setSignal] = useState<Signal>("USR1");
  const sending = useMutation({
    mutationFn: async () => contentOf(await client.POST("/v1/runs/{namespace}/{name}/signal", { params: { path: { namespace, name } }, body: { signal, pid: process.pid, rank } })),
    onSuccess: () => sent(signal),
  });
  return (
    <Dialog open onClose={close} aria-labelledby="signal-title" fullWidth slotProps={{ paper: { sx: { overflowWrap: "anywhere" } } }}>
      <DialogTitle id="signal-title">
        Send a signal to process {process.pid} of rank {rank}
      </DialogTitle>
      <DialogContent sx={{ display: "grid", gap: 4 }}>
        <Typography dir="auto" sx={{ textAlign: "left" }}>
          {process.command}
        </Typography>
        <SignalChoice signals={SIGNALS} signal={signal} choose={setSignal} />
        <Typography color="textSecondary">Only this process gets it. If the program of a member ends, the run goes on as its restarts say; to end the run itself, use Stop.</Typography>
        <CopyLine text={killCommand(name, namespace, rank, signal, process.pid)} />
        {sending.error && <Problem error={sending.error} />}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>Cancel</Button>
        <Button color="error" onClick={() => sending.mutate()} disabled={sending.isPending}>
          Send {signal}
        </Button>
      </DialogActions>
    </Dialog>
  );
}
