import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useCallback, useMemo, useState } from "react";
import { Problem } from "../app/Problem";
import { PanelTitle, SidePanel } from "../sidepanel/SidePanel";
import { readRun } from "../run/data/readRun";
import { draftOf, type Draft } from "../start/form";
import { WhatIfs, type Outcome } from "../start/outlook/WhatIfs";
import { NEW_TRIAL, trialRow } from "./trials";
import type { QueueRow } from "./useQueue";

interface Properties {
  now: number;
  /** Called with the bars of the alternatives. */
  draw: (rows: readonly QueueRow[]) => void;
}

/** The what-if of a waiting run with other members or GPUs: when it would start, here and on the timeline. */
export function WaitingWhatIf({ id, ...others }: Properties & { id: string }) {
  const [isOpen, setOpen] = useState(false);
  const [namespace = "", name = ""] = id.split("/");
  const run = useQuery({ queryKey: ["run-to-copy", id], queryFn: () => readRun(namespace, name), enabled: isOpen });
  const draft = useMemo(() => (run.data ? draftOf(run.data) : null), [run.data]);
  if (!isOpen)
    return (
      <Button size="small" variant="outlined" onClick={() => setOpen(true)} sx={{ mt: 3 }}>
        What if it asked for something else?
      </Button>
    );
  if (run.error) return <Problem error={run.error} retry={() => void run.refetch()} />;
  return (
    <Box sx={{ mt: 3 }}>
      {draft && <Drawn draft={draft} inPlaceOf={name} {...others} />}
      <Typography color="textSecondary">In its place in the queue; nothing is changed. The dashed bars of the timeline show it.</Typography>
    </Box>
  );
}

/** The what-if of a new run: when it would start. Nothing is started. */
export function NewWhatIf({ close, ...others }: Properties & { close: () => void }) {
  const [form, setForm] = useState(NEW_TRIAL.form);
  const draft = useMemo<Draft>(() => ({ form, base: {} }), [form]);
  const field = (key: "members" | "gpus" | "cpus" | "memory" | "timeLimit", label: string) => (
    <TextField size="small" label={label} value={form[key]} onChange={(event) => setForm({ ...form, [key]: event.target.value })} slotProps={{ htmlInput: { maxLength: 20 } }} />
  );
  return (
    <SidePanel label="What if a run was started" head={<PanelTitle>What if I started …</PanelTitle>} close={close}>
      <Box sx={{ display: "grid", gridTemplateColumns: "repeat(2, minmax(0, 1fr))", gap: 3, mb: 4 }}>
        {field("members", "Members")}
        {field("gpus", "GPUs each")}
        {field("cpus", "CPUs each")}
        {field("memory", "Memory each")}
        {field("timeLimit", "Time limit")}
      </Box>
      <Drawn draft={draft} {...others} />
      <Typography color="textSecondary" sx={{ mt: 2 }}>
        Behind the runs that wait now; nothing is started. The dashed bars of the timeline show it.
      </Typography>
    </SidePanel>
  );
}

function Drawn({ draft, inPlaceOf = "", now, draw }: Properties & { draft: Draft; inPlaceOf?: string }) {
  const gpusEach = Number(draft.form.gpus) || 0;
  const tell = useCallback((outcomes: readonly Outcome[]) => draw(outcomes.map((outcome) => trialRow(outcome, gpusEach, now))), [draw, gpusEach, now]);
  return <WhatIfs draft={draft} inPlaceOf={inPlaceOf} tell={tell} />;
}
