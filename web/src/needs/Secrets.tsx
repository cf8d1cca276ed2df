import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, ensureDone } from "../api/client";
import { Problem } from "../app/Problem";
import { For } from "../mine/For";
import { Section } from "../mine/Section";
import { Age } from "../words/times/Age";
import { CopyLine } from "../common/CopyLine";
import { Faint, PlainList } from "../common/Part";
import { useMayMakeSecrets } from "../verbs/useMayChange";
import { DeletableItem } from "./DeletableItem";
import { NewSecret } from "./NewSecret";
import { usersInWords } from "./needs";
import { isForbidden, useSecrets } from "./useNeeds";

/** The secrets that runs of one of my teams can use: names and keys, never values. */
export function Secrets({ teams }: { teams: readonly string[] }) {
  const queries = useQueryClient();
  const [chosen, setChosen] = useState("");
  const [makes, setMakes] = useState(false);
  const team = teams.includes(chosen) ? chosen : (teams[0] ?? "");
  const secrets = useSecrets(team);
  const mayMake = useMayMakeSecrets()(team);
  const items = secrets.data?.items ?? [];
  const remove = async (name: string, force: boolean) => {
    ensureDone(await client.DELETE("/v1/secrets/{name}", { params: { path: { name }, query: { namespace: team, force } } }));
    await queries.invalidateQueries({ queryKey: ["secrets"] });
  };
  return (
    <Section
      title="Secrets"
      actions={
        <>
          {teams.length > 1 && <For label="Team" value={team} choices={teams} choose={setChosen} />}
          {mayMake && (
            <Button size="small" variant="outlined" onClick={() => setMakes(true)}>
              New secret
            </Button>
          )}
        </>
      }
    >
      {makes && <NewSecret namespace={team} close={() => setMakes(false)} />}
      {secrets.error && !secrets.data && isForbidden(secrets.error) && (
        <Typography color="textSecondary">You may not list the secrets of {team}. Runs can still use one whose name you know.</Typography>
      )}
      {secrets.error && !secrets.data && !isForbidden(secrets.error) && <Problem error={secrets.error} retry={() => void secrets.refetch()} />}
      {secrets.isPending && <Skeleton variant="rectangular" height={64} />}
      {secrets.data && !items.length && (
        <>
          <Typography color="textSecondary">Runs of {team} have no secrets. One keeps a token or a certificate out of command lines and logs.</Typography>
          {mayMake && <CopyLine text="kaji secret create wandb WANDB_API_KEY" />}
        </>
      )}
      <PlainList>
        {items.map(({ name, keys, keyCount, createdAt, usedBy }) => (
          <DeletableItem
            key={`${team} ${name}`}
            name={name}
            loss={usedBy.length ? `It is ${usersInWords(usedBy)}: the next attempt will not start. Its values can't be brought back.` : "Its values can't be brought back."}
            remove={() => remove(name, usedBy.length > 0)}
          >
            <Typography component="span" sx={{ fontWeight: 600 }}>
              {name}
            </Typography>
            {keys ? `: ${keys.join(", ")}` : `: ${keyCount} ${keyCount === 1 ? "key" : "keys"}, made by another tool`}
            <Faint>
              Made <Age time={createdAt} />
              {usedBy.length > 0 && `, ${usersInWords(usedBy)}`}
            </Faint>
          </DeletableItem>
        ))}
      </PlainList>
    </Section>
  );
}
