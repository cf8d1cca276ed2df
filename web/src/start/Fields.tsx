import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { Field, type Shown } from "./Field";
import type { FieldName } from "./form";

const GRID = {
  display: "grid",
  gridTemplateColumns: "repeat(auto-fill, minmax(200px, 1fr))",
  gap: 4,
  alignItems: "start",
};

/** Fields of which most runs need none: they are shown on demand. */
export const ON_DEMAND: readonly FieldName[] = [
  "checkpoint",
  "restarts",
  "timeLimit",
  "priority",
  "launcher",
  "after",
  "volumes",
  "env",
  "secrets",
];

interface Properties {
  /** Return the value and the faults of a field. */
  show: (name: FieldName) => Shown;
  /** Whether the fields on demand are shown in any case. */
  isOpen: boolean;
  /** Namespaces in which the person may start runs. */
  teams: readonly string[];
  /** Whether a person chooses the number of members. */
  hasMembers: boolean;
  /** Whether it is a notebook, which has one member. */
  isNotebook: boolean;
}

/** The fields of the form. */
export function Fields({ show, isOpen, teams, hasMembers, isNotebook }: Properties) {
  const gpus = useQuery({ queryKey: ["gpus"], queryFn: async () => contentOf(await client.GET("/v1/gpus")) });
  const chosenType = show("gpuType");
  const each = isNotebook ? "" : " each";
  return (
    <Box sx={{ display: "grid", gap: 5, gridTemplateColumns: "minmax(0, 1fr)", alignContent: "start" }}>
      <Box sx={GRID}>
        <Field
          {...show("image")}
          label="Image"
          help="Name the image as docker run does, for example python:3.11."
          required
          wide
        />
        <Field
          {...show("command")}
          label="Command"
          help="For example: python train.py --lr 3e-4. If you leave it empty, the image's own command runs."
          lines={1}
          code
        />
        <Field {...show("name")} label="Name" help="If you leave it empty, the server chooses a name." />
        {teams.length > 1 && (
          <Field {...show("namespace")} label="Team" select>
            <MenuItem value="">Default</MenuItem>
            {teams.map((team) => (
              <MenuItem key={team} value={team}>
                {team}
              </MenuItem>
            ))}
          </Field>
        )}
        {hasMembers && (
          <Field
            {...show("members")}
            label="Members"
            help="If you leave it empty, there is one. 8-32 stands for as many as fit."
          />
        )}
        <Field {...show("gpus")} label={`GPUs${each}`} />
        <Field {...chosenType} label="GPU type" select>
          <MenuItem value="">Any</MenuItem>
          {(gpus.data?.types ?? []).map(({ type, free, total }) => (
            <MenuItem key={type} value={type}>
              {type} ({free} of {total} free)
            </MenuItem>
          ))}
          {chosenType.value && !gpus.data?.types.some(({ type }) => type === chosenType.value) && (
            <MenuItem value={chosenType.value}>{chosenType.value}</MenuItem>
          )}
        </Field>
        <Field {...show("cpus")} label={`CPUs${each}`} help="Write 8 or 0.5, for example." />
        <Field {...show("memory")} label={`Memory${each}`} help="Write 64g, for example." />
      </Box>
      <Box component="details" open={isOpen || undefined}>
        <Box component="summary" sx={{ cursor: "pointer", mb: 4 }}>
          Files, variables, checkpoint, limits
        </Box>
        <Box sx={GRID}>
          <Field
            {...show("checkpoint")}
            label="Checkpoint folder"
            help="Write /ckpt, for example. The folder outlives restarts and the run."
          />
          <Field
            {...show("restarts")}
            label="Restarts"
            help="The run starts again this often after its program failed."
          />
          <Field {...show("timeLimit")} label="Time limit" help="Write 8h, for example. Short runs start sooner." />
          <Field {...show("priority")} label="Priority" select>
            <MenuItem value="">Normal</MenuItem>
            <MenuItem value="high">High</MenuItem>
            <MenuItem value="low">Low</MenuItem>
          </Field>
          <Field {...show("launcher")} label="Launcher" select>
            <MenuItem value="">None</MenuItem>
            <MenuItem value="torchrun">torchrun</MenuItem>
            <MenuItem value="mpi">MPI</MenuItem>
          </Field>
          <Field
            {...show("after")}
            label="After"
            help="Name the runs that have to succeed first, one on each line. prepare:ended waits for any end."
            lines={2}
            code
          />
          <Field
            {...show("volumes")}
            label="Volumes"
            help="Write one on each line, for example imagenet:/data:ro."
            lines={2}
            code
          />
          <Field
            {...show("env")}
            label="Variables"
            help="Write one on each line, for example LR=3e-4. Everybody who sees the run can read them."
            lines={2}
            code
          />
          <Field
            {...show("secrets")}
            label="Secrets"
            help="Write one on each line: hub, certs:/certs or TOKEN=hub/token."
            lines={2}
            code
          />
        </Box>
      </Box>
    </Box>
  );
}
