import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import { useState } from "react";
import type { FieldName } from "../form";
import { useMayMakeSecrets } from "../../verbs/useMayChange";
import { NewSecret } from "../../needs/NewSecret";
import { isPicked, toggled } from "../picks/picks";
import { Picks } from "../picks/Picks";
import { usePicks } from "../picks/usePicks";
import { Field } from "./Field";
import { GRID, type Properties } from "./Fields";

/** Fields of which most runs need none: they are shown on demand. */
export const ON_DEMAND: readonly FieldName[] = ["checkpoint", "health", "restarts", "timeLimit", "priority", "launcher", "after", "volumes", "env", "secrets", "labels"];

/** The checkpoint folder of a run that begins with another one's checkpoint, if the person names none. */
const USUAL_FOLDER = "/ckpt";

/** The fields on demand. */
export function MoreFields({ show, has, kind, isOpen, notebook, change, team }: Properties) {
  const [isUnfolded, setIsUnfolded] = useState(false);
  const picks = usePicks(team, isOpen || isUnfolded);
  const [makesSecret, setMakesSecret] = useState(false);
  const mayMakeSecret = useMayMakeSecrets()(team);
  const volumes = show("volumes");
  const secrets = show("secrets");
  const isNotebook = kind === "notebook";
  return (
    <Box component="details" open={isOpen || isUnfolded} onToggle={(event) => setIsUnfolded(event.currentTarget.open)}>
      <Box component="summary" sx={{ cursor: "pointer", mb: 4 }}>
        Files, variables, {isNotebook ? "" : "checkpoint, "}labels, limits
      </Box>
      <Box sx={GRID}>
        <Field
          {...show("checkpoint")}
          label={isNotebook ? "Home folder" : "Checkpoint folder"}
          help={isNotebook ? `If you leave it empty, it is ${notebook.folder}. Its files are kept when the notebook ends.` : "Write /ckpt, for example. The folder outlives restarts and the run."}
        />
        <Picks
          label="Checkpoints of runs that are gone"
          picks={picks.checkpoints}
          isPicked={({ text }) => text === show("name").value}
          choose={({ text }) => change({ name: text, checkpoint: show("checkpoint").value || (isNotebook ? "" : USUAL_FOLDER) })}
        />
        {has("health") && <Field {...show("health")} label="Health check" help="A shell runs it in each member, and exit code 0 means healthy. Write pg_isready, for example." />}
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
          <Field {...show("after")} label="After" help="Name the runs that have to succeed first, one on each line. db:healthy waits until its health check succeeds, prepare:ended for any end." lines={2} code />
        )}
        <Field {...volumes} label="Volumes" help="Write one on each line, for example imagenet:/data:ro." lines={2} code />
        <Picks label="Volumes to choose" picks={picks.volumes} isPicked={(pick) => isPicked(volumes.value, pick)} choose={(pick) => volumes.onChange(toggled(volumes.value, pick))} />
        <Field {...show("env")} label="Variables" help="Write one on each line, for example LR=3e-4. Everybody who sees the run can read them." lines={2} code />
        <Field {...secrets} label="Secrets" help="Write one on each line: hub, certs:/certs or TOKEN=hub/token." lines={2} code />
        <Picks label="Secrets to choose" picks={picks.secrets} isPicked={(pick) => isPicked(secrets.value, pick)} choose={(pick) => secrets.onChange(toggled(secrets.value, pick))}>
          {mayMakeSecret && (
            <Button size="small" onClick={() => setMakesSecret(true)}>
              New secret
            </Button>
          )}
        </Picks>
        <Field {...show("labels")} label="Labels" help="Write one on each line, for example project=bert. The list of runs is searched by them." lines={2} code />
      </Box>
      {makesSecret && (
        <NewSecret
          namespace={team}
          made={({ name }) => secrets.onChange([...secrets.value.split("\n"), name].filter(Boolean).join("\n"))}
          close={() => setMakesSecret(false)}
        />
      )}
    </Box>
  );
}
