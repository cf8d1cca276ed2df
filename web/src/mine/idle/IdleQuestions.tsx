import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { PlainList } from "../../common/Part";
import { IdleQuestion } from "./IdleQuestion";
import { Section } from "../Section";

const REFRESH_MS = 30_000;

/** My runs that hold GPUs which they do not use, each with its answers. */
export function IdleQuestions() {
  const idle = useQuery({
    queryKey: ["idle", "mine"],
    queryFn: async () => contentOf(await client.GET("/v1/idle", { params: { query: { owner: "@me" } } })),
    refetchInterval: REFRESH_MS,
  });
  const items = idle.data?.items ?? [];
  return (
    <Section title="Idle GPUs: still needed?">
      {idle.error && !idle.data && <Problem error={idle.error} retry={() => void idle.refetch()} />}
      {idle.data && !items.length && <Typography color="textSecondary">None of your runs holds idle GPUs.</Typography>}
      <PlainList>
        {items.map((run) => (
          <IdleQuestion key={`${run.namespace}/${run.run}`} run={run} />
        ))}
      </PlainList>
    </Section>
  );
}
