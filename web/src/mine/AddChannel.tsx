import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Checkbox from "@mui/material/Checkbox";
import FormControlLabel from "@mui/material/FormControlLabel";
import TextField from "@mui/material/TextField";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { client, contentOf, Refused } from "../api/client";
import { Problem } from "../app/Problem";
import { faultIn, standBeside } from "./faults";
import { KINDS } from "./kinds";
import { OneTimeSecret } from "./OneTimeSecret";

const FIELDS = ["name", "url"] as const;

/** The form for a channel. Its URL contains a token, so it is hidden while it is typed, and never shown again. */
export function AddChannel({ team, close }: { team: string; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [url, setUrl] = useState("");
  const [webhook, setWebhook] = useState(false);
  const [kinds, setKinds] = useState<readonly string[]>([...KINDS.keys()]);
  const adding = useMutation({
    mutationFn: async () => {
      const params = { query: team ? { team } : {} };
      return contentOf(await client.POST("/v1/channels", { params, body: { name, url, webhook, kinds: [...kinds] } }));
    },
    onSuccess: async (made) => {
      setUrl("");
      await queries.invalidateQueries({ queryKey: ["channels"] });
      if (!made.key) close();
    },
  });
  if (adding.data?.key)
    return (
      <OneTimeSecret
        words={`The key that signs the requests of ${adding.data.name}. It is shown this once; give it to the service that gets them.`}
        secret={adding.data.key}
        close={close}
      />
    );
  const submit = (event: FormEvent) => {
    event.preventDefault();
    adding.mutate();
  };
  const faults = adding.error instanceof Refused ? adding.error.faults : [];
  const problem = standBeside(FIELDS, faults) ? null : adding.error;
  return (
    <Box component="form" aria-label="Add a channel" onSubmit={submit} sx={{ display: "grid", gap: 3, my: 3, maxWidth: 560 }}>
      <TextField
        size="small"
        label="Name"
        placeholder="slack"
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={faultIn(faults, "name") !== ""}
        helperText={faultIn(faults, "name") || "Runs choose it by this name."}
        slotProps={{ htmlInput: { maxLength: 40, autoComplete: "off" } }}
        autoFocus
      />
      <TextField
        size="small"
        type="password"
        label="URL"
        value={url}
        onChange={(event) => setUrl(event.target.value)}
        error={faultIn(faults, "url") !== ""}
        helperText={faultIn(faults, "url") || "Such as slack://…, mailtos://…, or a service's own https URL; apprise lists them. It is never shown again."}
        slotProps={{ htmlInput: { maxLength: 2100, autoComplete: "new-password" } }}
      />
      <FormControlLabel
        control={<Checkbox size="small" checked={webhook} onChange={(event) => setWebhook(event.target.checked)} />}
        label="A signed webhook: the URL gets JSON that a key signs"
      />
      <Box component="fieldset" sx={{ border: 0, p: 0, m: 0, minWidth: 0 }}>
        <legend style={{ padding: 0 }}>Messages about a run, when</legend>
        <Box sx={{ display: "grid", gridTemplateColumns: "repeat(auto-fill, minmax(min(100%, 260px), 1fr))" }}>
          {[...KINDS].map(([kind, words]) => (
            <FormControlLabel
              key={kind}
              control={
                <Checkbox
                  size="small"
                  checked={kinds.includes(kind)}
                  onChange={(event) => setKinds(event.target.checked ? [...kinds, kind] : kinds.filter((each) => each !== kind))}
                />
              }
              label={words}
            />
          ))}
        </Box>
      </Box>
      {problem && <Problem error={problem} />}
      <Box sx={{ display: "flex", gap: 2 }}>
        <Button type="submit" size="small" variant="contained" disabled={!name || !url || !kinds.length || adding.isPending}>
          Add
        </Button>
        <Button size="small" onClick={close}>
          Cancel
        </Button>
      </Box>
    </Box>
  );
}
