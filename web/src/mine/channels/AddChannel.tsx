import Box from "@mui/material/Box";
import Checkbox from "@mui/material/Checkbox";
import FormControlLabel from "@mui/material/FormControlLabel";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../../api/client";
import { KINDS } from "./kinds";
import { ShortFormField, ShortForm } from "../../form/ShortForm";
import { OneTimeSecret } from "../tokens/OneTimeSecret";

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
  return (
    <ShortForm label="Add a channel" sent={adding} fields={FIELDS} send="Add" isComplete={name !== "" && url !== "" && kinds.length > 0} close={close}>
      <ShortFormField name="name" label="Name" placeholder="slack" value={name} change={setName} helperText="Runs choose it by this name." maxLength={40} autoComplete="off" autoFocus />
      <ShortFormField
        name="url"
        type="password"
        label="URL"
        value={url}
        change={setUrl}
        helperText="Write slack://…, mailtos://… or a service's own https URL, for example; apprise lists all forms. The page never shows it again."
        maxLength={2100}
        autoComplete="new-password"
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
    </ShortForm>
  );
}
