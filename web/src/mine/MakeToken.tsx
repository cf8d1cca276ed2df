import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type FormEvent } from "react";
import { client, contentOf, Refused } from "../api/client";
import { Problem } from "../app/Problem";
import { exact } from "../words/times";
import { faultIn, standBeside } from "./faults";
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
  const submit = (event: FormEvent) => {
    event.preventDefault();
    making.mutate();
  };
  const faults = making.error instanceof Refused ? making.error.faults : [];
  const problem = standBeside(FIELDS, faults) ? null : making.error;
  return (
    <Box component="form" aria-label="Make a token" onSubmit={submit} sx={{ display: "grid", gap: 3, my: 3, maxWidth: 560 }}>
      <TextField
        size="small"
        label="For"
        placeholder="ci"
        value={name}
        onChange={(event) => setName(event.target.value)}
        error={faultIn(faults, "name") !== ""}
        helperText={faultIn(faults, "name") || "The robot's name. One that exists gets a further token."}
        slotProps={{ htmlInput: { maxLength: 63, autoComplete: "off" } }}
        autoFocus
      />
      <Box sx={{ display: "flex", flexWrap: "wrap", gap: 3 }}>
        <TextField select size="small" label="It may" value={role} onChange={(event) => setRole(event.target.value as Role)} sx={{ minWidth: 200 }}>
          <MenuItem value="user">see and start runs</MenuItem>
          <MenuItem value="viewer">see runs</MenuItem>
        </TextField>
        <TextField
          size="small"
          label="Valid for"
          value={ttl}
          onChange={(event) => setTtl(event.target.value)}
          error={faultIn(faults, "ttl") !== ""}
          helperText={faultIn(faults, "ttl")}
          slotProps={{ htmlInput: { maxLength: 20 } }}
          sx={{ width: 120 }}
        />
      </Box>
      {problem && <Problem error={problem} />}
      <Box sx={{ display: "flex", gap: 2 }}>
        <Button type="submit" size="small" variant="contained" disabled={!name || !ttl || making.isPending}>
          Make it
        </Button>
        <Button size="small" onClick={close}>
          Cancel
        </Button>
      </Box>
    </Box>
  );
}
