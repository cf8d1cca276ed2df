import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, ensureDone, type Schemas } from "../../api/client";
import { Problem } from "../../app/Problem";
import { Age } from "../../words/times/Age";
import { Faint } from "../../common/Part";

/** One robot, and the end of all its tokens. */
export function RobotItem({ robot }: { robot: Schemas["Robot"] }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const revocation = useMutation({
    mutationFn: async () => {
      const params = { path: { name: robot.name }, query: { namespace: robot.namespace } };
      ensureDone(await client.DELETE("/v1/tokens/{name}", { params }));
    },
    onSuccess: async () => queries.invalidateQueries({ queryKey: ["tokens"] }),
  });
  return (
    <Box component="li" sx={{ borderBottom: 1, borderColor: "divider", display: "flex", flexWrap: "wrap", alignItems: "start", gap: 2 }}>
      <Box sx={{ flex: "1 1 240px", minWidth: 0 }}>
        <Typography component="span" sx={{ fontWeight: 600 }}>
          {robot.name}
        </Typography>
        : {robot.role === "viewer" ? "sees runs" : "sees and starts runs"}
        <Faint>
          {robot.owner && `Made by ${robot.owner} `}
          <Age time={robot.createdAt} />
        </Faint>
        {asking && <Typography>All tokens of {robot.name} end within a minute; programs that use them are refused.</Typography>}
        {revocation.error && <Problem error={revocation.error} />}
      </Box>
      {asking ? (
        <>
          <Button size="small" color="error" disabled={revocation.isPending} onClick={() => revocation.mutate()}>
            Revoke them
          </Button>
          <Button size="small" onClick={() => setAsking(false)}>
            Keep them
          </Button>
        </>
      ) : (
        <Button size="small" aria-label={`Revoke ${robot.name}`} onClick={() => setAsking(true)}>
          Revoke
        </Button>
      )}
    </Box>
  );
}
