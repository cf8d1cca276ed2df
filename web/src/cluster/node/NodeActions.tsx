import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import type { NodeDetail } from "./NodePanel";
import { isUnderTest } from "./testing";

type Verb = "drain" | "uncordon" | "healthy" | "test";

/** An operator's actions on a node: drain it with a reason, test it, and return it to the pool. */
export function NodeActions({ node }: { node: NodeDetail }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const [reason, setReason] = useState("");
  const action = useMutation({
    mutationFn: (verb: Verb) => perform(verb, node.name, reason),
    onSuccess: async () => {
      setAsking(false);
      await queries.invalidateQueries({ queryKey: ["node", node.name] });
    },
  });
  if (!node.changeable) return null;
  const isOut = node.taints.some((taint) => taint.startsWith("kajitori.dev/"));
  const runs = new Set(node.members.filter(({ isRun }) => isRun).map(({ holder }) => holder)).size;
  return (
    <Box sx={{ my: 2 }}>
      {action.error && <Problem error={action.error} />}
      <Box sx={{ display: "flex", gap: 2, flexWrap: "wrap" }}>
        {node.schedulable && !asking && (
          <Button size="small" variant="outlined" onClick={() => setAsking(true)}>
            Drain
          </Button>
        )}
        {!node.schedulable && (
          <Button size="small" variant="outlined" disabled={action.isPending} onClick={() => action.mutate("uncordon")}>
            Let it take work again
          </Button>
        )}
        {node.testable && (
          <Button size="small" variant="outlined" disabled={action.isPending || isUnderTest(node.test)} onClick={() => action.mutate("test")}>
            {isUnderTest(node.test) ? "Test asked for" : "Test it"}
          </Button>
        )}
        {isOut && (
          <Button size="small" variant="outlined" disabled={action.isPending} onClick={() => action.mutate("healthy")}>
            Return it to the pool
          </Button>
        )}
      </Box>
      {asking && node.schedulable && (
        <Box
          component="form"
          onSubmit={(event) => {
            event.preventDefault();
            action.mutate("drain");
          }}
          sx={{ display: "flex", flexDirection: "column", gap: 2, mt: 2 }}
        >
          <Typography>
            {runs
              ? `${runs === 1 ? "1 run moves" : `${runs} runs move`} away: a run with several members stops as a whole, has its grace period to write a checkpoint, and starts elsewhere.`
              : "No run is on it. It takes no work until you return it."}
          </Typography>
          <TextField size="small" label="Reason, for everybody to read" value={reason} onChange={(event) => setReason(event.target.value)} slotProps={{ htmlInput: { maxLength: 200 } }} autoFocus />
          <Box sx={{ display: "flex", gap: 2 }}>
            <Button type="submit" size="small" variant="contained" disabled={action.isPending}>
              Drain it
            </Button>
            <Button size="small" onClick={() => setAsking(false)}>
              Keep it
            </Button>
          </Box>
        </Box>
      )}
    </Box>
  );
}

async function perform(verb: Verb, name: string, reason: string): Promise<void> {
  const params = { path: { name } };
  if (verb === "drain") contentOf(await client.POST("/v1/nodes/{name}/drain", { params, body: { reason } }));
  else if (verb === "test") contentOf(await client.POST("/v1/preflight", { body: { nodes: [name] } }));
  else if (verb === "uncordon") contentOf(await client.POST("/v1/nodes/{name}/uncordon", { params }));
  else contentOf(await client.POST("/v1/nodes/{name}/healthy", { params }));
}
