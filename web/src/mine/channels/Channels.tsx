import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { useTeams } from "../../choices/useTeams";
import { CopyLine } from "../../common/CopyLine";
import { PlainList } from "../../common/Part";
import { AddChannel } from "./AddChannel";
import { ChannelItem } from "./ChannelItem";
import { For } from "../For";
import { Section } from "../Section";

const REFRESH_MS = 30_000;

/** Where messages about my runs arrive, or about those of a team that I lead. */
export function Channels() {
  const led = useTeams("lead");
  const [team, setTeam] = useState("");
  const [adds, setAdds] = useState(false);
  const channels = useQuery({
    queryKey: ["channels", team],
    queryFn: async () => contentOf(await client.GET("/v1/channels", { params: { query: team ? { team } : {} } })),
    refetchInterval: REFRESH_MS,
  });
  const items = channels.data?.items ?? [];
  return (
    <Section
      title="Messages"
      actions={
        <>
          {led.length > 0 && <For label="About runs of" value={team} choices={led} nobody="me" choose={setTeam} />}
          {!adds && (
            <Button size="small" variant="outlined" onClick={() => setAdds(true)}>
              Add a channel
            </Button>
          )}
        </>
      }
    >
      {adds && <AddChannel key={team} team={team} close={() => setAdds(false)} />}
      {channels.error && !channels.data && <Problem error={channels.error} retry={() => void channels.refetch()} />}
      {!channels.data && !channels.error && <Skeleton variant="rectangular" height={64} />}
      {channels.data && !items.length && !adds && (
        <>
          <Typography gutterBottom>
            {team ? `No channel of ${team} yet.` : "No channel yet."} Messages about runs arrive by Slack, e-mail, Teams, or wherever you say:
          </Typography>
          <CopyLine text={`kaji notify add slack${team && ` --team ${team}`}`} />
        </>
      )}
      <PlainList>
        {items.map((channel) => (
          <ChannelItem key={`${team} ${channel.name}`} channel={channel} team={team} />
        ))}
      </PlainList>
    </Section>
  );
}
