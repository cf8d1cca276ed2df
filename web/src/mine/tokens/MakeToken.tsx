import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../../api/client";
import { exact } from "../../words/times/times";
import { ShortFormField, ShortForm } from "../../form/ShortForm";
import { OneTimeSecret } from "./OneTimeSecret";

type Role = "user" | "viewer";
const FIELDS = ["name", "ttl"] as const;

/** The form for a robot's token. The token is shown once, with a button that copies it. */
export function MakeToken({ team, close }: { team: string; close: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("user");
  const [ttl, setTtl] = useState("30d");
  const making = useMutation({
    mutationFn: async () => contentOf(await client.POST("/v1/tokens", { body: { name, namespace: team, role, ttl } })),
    onSuccess: async () => queries.invalidateQueries({ queryKey: ["tokens"] }),
    gcTime: 0,
  });
  if (making.data) {
    const { name: robot, expiresAt, token } = making.data;
    return (
      <OneTimeSecret
        words={`The token of ${robot}, valid until ${exact(expiresAt)}. It is shown this once: copy it now.`}
        secret={token}
        close={close}
      />
    );
  }
  return (
    <ShortForm label="Make a token" sent={making} fields={FIELDS} send="Make it" isComplete={name !== "" && ttl !== ""} close={close}>
      <ShortFormField name="name" label="For" placeholder="ci" value={name} change={setName} helperText="The robot's name. One that exists gets a further token." maxLength={63} autoComplete="off" autoFocus />
      <Box sx={{ display: "flex", flexWrap: "wrap", gap: 3 }}>
        <TextField select size="small" label="It may" value={role} onChange={(event) => setRole(event.target.value as Role)} sx={{ minWidth: 200 }}>
          <MenuItem value="user">see and start runs</MenuItem>
          <MenuItem value="viewer">see runs</MenuItem>
        </TextField>
        <ShortFormField name="ttl" label="Valid for" value={ttl} change={setTtl} maxLength={20} sx={{ width: 120 }} />
      </Box>
    </ShortForm>
  );
}
