import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import type { FieldName } from "../form";
import { Field } from "./Field";
import { GRID, type Properties } from "./Fields";

/** Fields of which most runs need none: they are shown on demand. */
export const ON_DEMAND: readonly FieldName[] = ["checkpoint", "restarts", "timeLimit", "priority", "launcher", "after", "volumes", "env", "secrets", "labels"];

/** The fields on demand. */
export function MoreFields({ show, has, kind, isOpen, notebook }: Properties) {
  const isNotebook = kind === "notebook";
  return (
    <Box component="details" open={isOpen || undefined}>
      <Box component="summary" sx={{ cursor: "pointer", mb: 4 }}>
        Files, variables, {isNotebook ? "" : "checkpoint, "}labels, limits
      </Box>
      <Box sx={GRID}>
        <Field
          {...show("checkpoint")}
          label={isNotebook ? "Home folder" : "Checkpoint folder"}
          help={isNotebook ? `If you leave it empty, it is ${notebook.folder}. Its files are kept when the notebook ends.` : "Write /ckpt, for example. The folder outlives restarts and the run."}
        />
        {has("restarts") && <Field {...show("restarts")} label="Restarts" help={`${kind === "sweep" ? "A member" : "The run"} starts again this often after its program failed.`} />}
        <Field
          {...show("timeLimit")}
          label="Time limit"
          help={isNotebook && notebook.timeLimit ? `Write 8h, for example. If you leave it empty, it is ${notebook.timeLimit}.` : "Write 8h, for example. Short runs start sooner."}
        />
        <Field {...show("priority")} label="Priority" select>
          <MenuItem value="">Normal</MenuItem>
          <MenuItem value="high">High</MenuItem>
          <MenuItem value="low">Low</MenuItem>
        </Field>
        {has("launcher") && (
          <Field {...show("launcher")} label="Launcher" select>
            <MenuItem value="">None</MenuItem>
            <MenuItem value="torchrun">torchrun</MenuItem>
            <MenuItem value="mpi">MPI</MenuItem>
          </Field>
        )}
        {has("after") && (
          <Field {...show("after")} label="After" help="Name the runs that have to succeed first, one on each line. prepare:ended waits for any end." lines={2} code />
        )}
        <Field {...show("volumes")} label="Volumes" help="Write one on each line, for example imagenet:/data:ro." lines={2} code />
        <Field {...show("env")} label="Variables" help="Write one on each line, for example LR=3e-4. Everybody who sees the run can read them." lines={2} code />
        <Field {...show("secrets")} label="Secrets" help="Write one on each line: hub, certs:/certs or TOKEN=hub/token." lines={2} code />
        <Field {...show("labels")} label="Labels" help="Write one on each line, for example project=bert. The list of runs is searched by them." lines={2} code />
      </Box>
    </Box>
  );
}
