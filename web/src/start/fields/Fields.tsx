import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import { hintFor } from "../../board/guarantees";
import { useGpus } from "../../board/useGpus";
import type { FieldName, Form, Kind, NotebookDefaults } from "../form";
import { imagePicks } from "../picks/picks";
import { Picks } from "../picks/Picks";
import { useImages } from "../picks/usePicks";
import { Field, type Shown } from "./Field";
import { MoreFields } from "./MoreFields";

export const GRID = {
  display: "grid",
  gridTemplateColumns: "repeat(auto-fill, minmax(200px, 1fr))",
  gap: 4,
  alignItems: "start",
};

const EXAMPLES = {
  run: "For example: python train.py --lr 3e-4.",
  sweep: "For example: sh -c 'python train.py --seed $KAJI_ARRAY_INDEX'.",
};
const MAY_BE_EMPTY = "If you leave it empty, the image's own command runs.";
const IS_NEEDED = "This server has no container engine: the command is a program of its machine, whatever the image.";

export interface Properties {
  /** Return the value and the faults of a field. */
  show: (name: FieldName) => Shown;
  /** Whether the form has a field. */
  has: (name: FieldName) => boolean;
  kind: Kind;
  /** Whether the fields on demand are shown in any case. */
  isOpen: boolean;
  /** Namespaces in which the person may start runs. */
  teams: readonly string[];
  /** The namespace of the run; empty while it is not known. */
  team: string;
  /** The namespace of runs that name none; empty while it is not known. */
  usual: string;
  /** Whether a run has to name its command. */
  needsCommand: boolean;
  /** What a notebook has if the form does not say it. */
  notebook: NotebookDefaults;
  /** Set several fields. */
  change: (part: Partial<Form>) => void;
}

/** The fields of the form. */
export function Fields(properties: Properties) {
  const { show, has, kind, teams, team, usual, needsCommand, notebook } = properties;
  const gpus = useGpus();
  const chosenType = show("gpuType");
  const isNotebook = kind === "notebook";
  const imageField = isNotebook ? "notebookImage" : "image";
  const each = isNotebook ? "" : " each";
  return (
    <Box sx={{ display: "grid", gap: 5, gridTemplateColumns: "minmax(0, 1fr)", alignContent: "start" }}>
      <Box sx={GRID}>
        {isNotebook ? (
          <Field
            {...show(imageField)}
            faults={show("image").faults}
            label="Image"
            help={notebook.image ? `If you leave it empty, it is ${notebook.image}.` : "An image with JupyterLab."}
            wide
          />
        ) : (
          <Field {...show(imageField)} label="Image" help="Name the image as docker run does, for example python:3.11." required wide />
        )}
        <Picks label="Images" picks={imagePicks(useImages(kind), show(imageField).value)} choose={({ text }) => show(imageField).onChange(text)} />
        {has("command") && (
          <Field
            {...show("command")}
            label="Command"
            help={isNotebook ? "Instead of JupyterLab." : `${EXAMPLES[kind]} ${needsCommand ? IS_NEEDED : MAY_BE_EMPTY}`}
            required={needsCommand && !isNotebook}
            lines={1}
            code
          />
        )}
        {has("array") && (
          <>
            <Field {...show("array")} label="Indices" help="0-999%64 has 1,000 members, of which at most 64 run at once. 1,3,5-9 and 0-100:5 work, too." required />
            <Field {...show("stopAt")} label="Stop at" select>
              <MenuItem value="">The end of all members</MenuItem>
              <MenuItem value="first-success">The first success</MenuItem>
              <MenuItem value="first-failure">The first failure</MenuItem>
            </Field>
          </>
        )}
        <Field {...show("name")} label="Name" help={isNotebook ? `If you leave it empty, it is ${notebook.name}.` : "If you leave it empty, the server chooses a name."} />
        {teams.length > 1 && (
          <Field {...show("namespace")} label="Team" select>
            {(!usual || teams.includes(usual)) && <MenuItem value="">{usual ? `Default (${usual})` : "Default"}</MenuItem>}
            {teams.map((team) => (
              <MenuItem key={team} value={team}>
                {team}
              </MenuItem>
            ))}
          </Field>
        )}
        {has("members") && <Field {...show("members")} label="Members" help="If you leave it empty, there is one. 8-32 stands for as many as fit." />}
        <Field {...show("gpus")} label={`GPUs${each}`} />
        <Field {...chosenType} label="GPU type" help={hintFor(gpus.data?.guarantees ?? [], team, chosenType.value)} select>
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
      <MoreFields {...properties} />
    </Box>
  );
}
