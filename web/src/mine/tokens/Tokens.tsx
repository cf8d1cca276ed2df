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
import { sentence } from "../../words/sentence";
import { For } from "../For";
import { MakeToken } from "./MakeToken";
import { RobotItem } from "./RobotItem";
import { Section } from "../Section";

/** Tokens with which robots act in the teams that I lead. */
export function Tokens() {
  const led = useTeams("lead");
  const [chosen, setChosen] = useState("");
  const [makes, setMakes] = useState(false);
  const team = led.includes(chosen) ? chosen : (led[0] ?? "");
  const robots = useQuery({
    queryKey: ["tokens", team],
    queryFn: async () => contentOf(await client.GET("/v1/tokens", { params: { query: { namespace: team } } })),
    enabled: team !== "",
  });
  if (!team)
    return (
      <Section title="Tokens for robots">
        <Typography color="textSecondary">
          Leads of a team make tokens with which programs submit and watch its runs; you lead none. Ask your team's lead:
        </Typography>
        <CopyLine text="kaji token create --for ci" />
      </Section>
    );
  const items = robots.data?.items ?? [];
  // A cluster without RoleBindings, such as that of `kaji up`, says so.
  const note = robots.data?.note ?? "";
  return (
    <Section
      title="Tokens for robots"
      actions={
        <>
          {led.length > 1 && <For label="Team" value={team} choices={led} choose={setChosen} />}
          {!makes && !note && (
            <Button size="small" variant="outlined" onClick={() => setMakes(true)}>
              Make a token
            </Button>
          )}
        </>
      }
    >
      {makes && <MakeToken key={team} team={team} close={() => setMakes(false)} />}
      {note && <Typography color="textSecondary">{sentence(note)} Programs on this machine act with the token that kaji itself uses.</Typography>}
      {robots.error && !robots.data && <Problem error={robots.error} retry={() => void robots.refetch()} />}
      {!robots.data && !robots.error && <Skeleton variant="rectangular" height={64} />}
      {robots.data && !items.length && !makes && !note && (
        <Typography color="textSecondary">No robot acts in {team}. A token lets a program submit and watch its runs.</Typography>
      )}
      <PlainList>
        {items.map((robot) => (
          <RobotItem key={`${team} ${robot.name}`} robot={robot} />
        ))}
      </PlainList>
    </Section>
  );
}
