import Typography from "@mui/material/Typography";
import { Problem } from "../../app/Problem";

interface Found {
  message: string;
  toFree?: { kind: string }[];
}

/** A sentence about the steps that let a waiting run start, and the number of nodes that they concern. */
export function RoomWords({ room, found, error, nodes }: { room: string; found: Found | undefined; error: Error | null; nodes: number }) {
  if (error) return <Problem error={error} />;
  if (!found) return null;
  const steps = found.toFree?.length ?? 0;
  const said = steps ? `${room} starts after ${steps} ${steps === 1 ? "step" : "steps"} on ${nodes} ${nodes === 1 ? "node" : "nodes"}, which the map shows.` : `${room}: nothing that has to end is known.`;
  return (
    <Typography sx={{ mb: 2 }}>
      {said} {found.message && `Why it waits: ${found.message}.`}
    </Typography>
  );
}
