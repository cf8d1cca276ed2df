import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run, type Schemas } from "../api/client";
import { expanded } from "../cluster/names";
import { phaseOf } from "../run/data/status";
import { CopyLine } from "../common/CopyLine";
import { connectLines, sshHost } from "./connect";

/** Simulated nodes run no programs, so nothing connects to their members. */
const SIMULATED = "simulated";

/** Commands that reach a member from the person's computer; nothing unless the run runs, and on real nodes. */
export function Connect({ run, rank }: { run: Run; rank: number }) {
  const { name, namespace, uid } = run;
  const node = expanded((run.nodes ?? "").replace(/\*\d+(?=,|$)/g, ""))[0] ?? "";
  const isRunning = phaseOf(run) === "Running";
  const simulated = useQuery({
    queryKey: ["node", node],
    queryFn: async () => contentOf(await client.GET("/v1/nodes/{name}", { params: { path: { name: node } } })),
    select: ({ labels }) => labels["node.kubernetes.io/instance-type"] === SIMULATED,
    enabled: isRunning && !!node,
    staleTime: Infinity,
    retry: false,
  });
  const namesakes = useQuery({
    queryKey: ["namesakes", uid],
    queryFn: async () => {
      const query = { name, fields: ["summary" as const], limit: 100 };
      return (contentOf(await client.GET("/v1/runs", { params: { query } })) as Schemas["RunTable"]).items;
    },
    select: (found) => found.some((other) => other.name === name && other.namespace !== namespace),
    enabled: isRunning,
    retry: false,
  });
  if (!isRunning || simulated.isLoading || simulated.data || namesakes.isLoading) return null;
  const isOnly = namesakes.data === false;
  return (
    <Box component="details" sx={{ mb: 3, maxWidth: 720 }}>
      <Box component="summary" sx={{ cursor: "pointer", py: 1 }}>
        Connect from your computer
      </Box>
      <Box sx={{ display: "grid", gridTemplateColumns: "minmax(0, 1fr)", gap: 2, pt: 2 }}>
        {connectLines(run, rank, isOnly).map((line) => (
          <CopyLine key={line} text={line} />
        ))}
        <Typography color="textSecondary" sx={{ overflowWrap: "anywhere" }}>
          In VS Code (Remote - SSH) and other programs that use OpenSSH, the host is <code>{sshHost(run, rank, isOnly)}</code>, once you have run:
        </Typography>
        <CopyLine text="kaji ssh-config" />
      </Box>
    </Box>
  );
}
