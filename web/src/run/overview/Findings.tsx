import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf, type Run } from "../../api/client";
import { serverNow } from "../../api/clock";
import { Problem } from "../../app/Problem";
import { useMayChange } from "../../verbs/useMayChange";
import { isFinal } from "../data/status";
import { useIdleAnswer } from "../useIdleAnswer";

const REFRESH_MS = 30_000;
const DAY_MS = 24 * 3600 * 1000;

/** Findings about a run for its owner: it may be stuck, or its GPUs are idle. */
export function Findings({ run, showWhy }: { run: Run; showWhy: () => void }) {
  const { stuck, idle } = run.status;
  if (isFinal(run)) return null;
  return (
    <>
      {stuck && (
        <Alert
          severity="warning"
          variant="outlined"
          sx={{ mb: 3 }}
          action={
            <Button color="inherit" size="small" onClick={showWhy} sx={{ whiteSpace: "nowrap" }}>
              Show why
            </Button>
          }
        >
          {stuck.message || "It may be stuck: it has made no progress for long."}
        </Alert>
      )}
      {idle && <IdleGpus run={run} />}
    </>
  );
}

/** The question what is to become of idle GPUs, in the server's words, with its two answers for people who may give them. */
function IdleGpus({ run }: { run: Run }) {
  const path = { namespace: run.namespace, name: run.name };
  const idle = useQuery({
    queryKey: ["idle", run.uid],
    queryFn: async () =>
      contentOf(await client.GET("/v1/runs/{namespace}/{name}/idle", { params: { path, query: { look: false } } })),
    refetchInterval: REFRESH_MS,
  });
  const answer = useIdleAnswer(path);
  const mayChange = useMayChange()(run.namespace);
  const found = idle.data?.found;
  if (!found) return null;
  return (
    <>
      {answer.error && <Problem error={answer.error} />}
      <Alert
        severity="warning"
        variant="outlined"
        sx={{ mb: 3 }}
        action={
          mayChange && (
            <Box sx={{ display: "flex", flexWrap: "wrap", gap: 2 }}>
              <Button
                color="inherit"
                size="small"
                disabled={answer.isPending}
                onClick={() => answer.mutate(new Date(serverNow() + DAY_MS).toISOString())}
              >
                Keep for a day
              </Button>
              <Button
                color="inherit"
                size="small"
                title="Stop it after a checkpoint; resuming starts it again"
                disabled={answer.isPending}
                onClick={() => answer.mutate(null)}
              >
                Park
              </Button>
            </Box>
          )
        }
      >
        {found.says}
      </Alert>
    </>
  );
}
