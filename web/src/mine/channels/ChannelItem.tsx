import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf, ensureDone, type Schemas } from "../../api/client";
import { Problem } from "../../app/Problem";
import { Age } from "../../words/times/Age";
import { Faint } from "../../common/Part";
import { kindsInWords } from "./kinds";

const ASK_AGAIN_MS = 1_000;

/** One channel: what it gets, whether it took the last message, a test, and its removal. */
export function ChannelItem({ channel, team }: { channel: Schemas["ChannelView"]; team: string }) {
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const params = { path: { name: channel.name }, query: team ? { team } : {} };
  const test = useMutation({
    mutationFn: async () => contentOf(await client.POST("/v1/channels/{name}/test", { params })),
  });
  const removal = useMutation({
    mutationFn: async () => ensureDone(await client.DELETE("/v1/channels/{name}", { params })),
    onSuccess: async () => queries.invalidateQueries({ queryKey: ["channels"] }),
  });
  const error = test.error ?? removal.error;
  return (
    <Box component="li" sx={{ borderBottom: 1, borderColor: "divider", display: "flex", flexWrap: "wrap", alignItems: "start", gap: 2 }}>
      <Box sx={{ flex: "1 1 240px", minWidth: 0 }}>
        <Typography component="span" sx={{ fontWeight: 600 }}>
          {channel.name}
        </Typography>{" "}
        ({channel.scheme}): {kindsInWords(channel.kinds)}
        <Faint>
          {channel.sentAt ? (
            <>
              Last message <Age time={channel.sentAt} />
            </>
          ) : (
            "No message yet"
          )}
          {channel.waiting > 0 && `; ${channel.waiting} not delivered yet`}
        </Faint>
        {channel.error && <Typography color="error">The last message was not taken: {channel.error}</Typography>}
        {test.data && <Outcome id={test.data.id} params={params} />}
        {error && <Problem error={error} />}
      </Box>
      <Button size="small" disabled={test.isPending} onClick={() => test.mutate()}>
        Test
      </Button>
      {asking ? (
        <>
          <Button size="small" color="error" disabled={removal.isPending} onClick={() => removal.mutate()}>
            Remove it
          </Button>
          <Button size="small" onClick={() => setAsking(false)}>
            Keep it
          </Button>
        </>
      ) : (
        <Button size="small" aria-label={`Remove ${channel.name}`} onClick={() => setAsking(true)}>
          Remove
        </Button>
      )}
    </Box>
  );
}

interface TestProperties {
  id: string;
  params: { path: { name: string }; query: { team?: string } };
}

/** The result of a test message. The server is asked until the channel has accepted or refused it. */
function Outcome({ id, params }: TestProperties) {
  const test = useQuery({
    queryKey: ["channel-test", id],
    queryFn: async () => {
      const query = { ...params.query, id };
      return contentOf(await client.GET("/v1/channels/{name}/test", { params: { ...params, query } }));
    },
    refetchInterval: (query) => (query.state.data && query.state.data.state !== "waiting" ? false : ASK_AGAIN_MS),
  });
  if (test.error) return <Problem error={test.error} />;
  const { state = "waiting", error = "" } = test.data ?? {};
  return (
    <Typography role="status" color={state === "failed" ? "error" : "textPrimary"}>
      {state === "delivered" && "The test has arrived."}
      {state === "failed" && `The test was not taken: ${error}`}
      {state === "waiting" && (error ? `The test is tried again: ${error}` : "The test is on its way …")}
    </Typography>
  );
}
