import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Checkbox from "@mui/material/Checkbox";
import Dialog from "@mui/material/Dialog";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import FormControlLabel from "@mui/material/FormControlLabel";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, Refused } from "../api/client";
import { ShortFormField, ShortForm } from "../form/ShortForm";
import { dataOf, type Entry } from "./needs";
import type { Secret } from "./useNeeds";

const FIELDS = ["name"] as const;
const MOST_LETTERS = 253;
const MOST_OF_A_VALUE = 512 * 1024;

interface Properties {
  /** The namespace whose runs use it; the server's own if it is empty. */
  namespace: string;
  made?: (secret: Secret) => void;
  close: () => void;
}

/** The dialog that makes a secret. Its values exist only in this form: they are in no address and in no storage, and no answer contains them. */
export function NewSecret({ namespace, made, close }: Properties) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [entries, setEntries] = useState<readonly Entry[]>([{ key: "", value: "" }]);
  const [replaces, setReplaces] = useState(false);
  const making = useMutation({
    mutationFn: async () => {
      const body = { name: name.trim(), data: dataOf(entries), ...(namespace && { namespace }) };
      return contentOf(await client.POST("/v1/secrets", { body, params: { query: { replace: replaces } } }));
    },
    onSuccess: async (secret) => {
      made?.(secret);
      close();
      await queries.invalidateQueries({ queryKey: ["secrets"] });
    },
    gcTime: 0,
  });
  const change = (index: number, part: Partial<Entry>) => setEntries((all) => all.map((entry, at) => (at === index ? { ...entry, ...part } : entry)));
  const addFile = async (file: File | undefined) => {
    if (!file) return;
    const entry = { key: file.name, value: new Uint8Array(await file.arrayBuffer()) };
    setEntries((all) => [...all.filter(({ key, value }) => key || value), entry]);
  };
  const isTaken = making.error instanceof Refused && making.error.code === "AlreadyExists";
  const isComplete = name.trim() !== "" && entries.every(({ key, value }) => key.trim() !== "" && value !== "");
  return (
    <Dialog open onClose={close} aria-labelledby="new-secret" fullWidth>
      <DialogTitle id="new-secret">New secret</DialogTitle>
      {/* A dialog in the form of a run is no part of that form. */}
      <DialogContent onSubmit={(event) => event.stopPropagation()}>
        <Typography color="textSecondary">
          {namespace ? `For runs of ${namespace}. ` : ""}Values are not shown again, neither here nor by <code>kaji secret ls</code>.
        </Typography>
        <ShortForm label="New secret" sent={making} fields={FIELDS} send={replaces ? "Replace it" : "Make it"} isComplete={isComplete} close={close}>
          <ShortFormField name="name" label="Name" placeholder="wandb" value={name} change={setName} maxLength={MOST_LETTERS} autoComplete="off" autoFocus />
          {entries.map(({ key, value }, index) => (
            <Box key={index} role="group" aria-label={`Value ${index + 1}`} sx={{ display: "grid", gap: 3, gridTemplateColumns: { xs: "minmax(0, 1fr)", sm: "minmax(0, 1fr) minmax(0, 1fr)" } }}>
              <ShortFormField name={`key-${index}`} label="Key" placeholder="WANDB_API_KEY" value={key} change={(text) => change(index, { key: text })} maxLength={MOST_LETTERS} autoComplete="off" />
              {typeof value === "string" ? (
                <ShortFormField name={`value-${index}`} label="Value" type="password" value={value} change={(text) => change(index, { value: text })} maxLength={MOST_OF_A_VALUE} autoComplete="new-password" />
              ) : (
                <Typography sx={{ alignSelf: "center" }}>{value.length.toLocaleString()} bytes of a file</Typography>
              )}
            </Box>
          ))}
          <Box sx={{ display: "flex", flexWrap: "wrap", gap: 2 }}>
            <Button size="small" onClick={() => setEntries((all) => [...all, { key: "", value: "" }])}>
              Another value
            </Button>
            <Button size="small" component="label">
              From a file
              <input
                type="file"
                hidden
                aria-label="A file with a value"
                onChange={(event) => {
                  void addFile(event.target.files?.[0]);
                  event.target.value = "";
                }}
              />
            </Button>
          </Box>
          {isTaken && (
            <FormControlLabel
              control={<Checkbox checked={replaces} onChange={(_, checked) => setReplaces(checked)} />}
              label="Replace the secret of this name, with all of its keys"
            />
          )}
        </ShortForm>
      </DialogContent>
    </Dialog>
  );
}
