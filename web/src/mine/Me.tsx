import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { Link } from "react-router";
import { client, contentOf } from "../api/client";
import { whoAmI } from "../api/signIn";
import { Problem } from "../app/Problem";
import { inWords, rowsOf } from "../board/guarantees";
import { useGpus } from "../board/useGpus";
import { CopyLine } from "../common/CopyLine";
import { Faint, PlainList } from "../common/Part";
import { MEANINGS, myTeamsIn } from "./tokens/roles";
import { Section } from "./Section";

/** Who I am for the cluster's API server, where I may do what, and my teams in the policy. */
export function Me() {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const teams = useQuery({ queryKey: ["teams"], queryFn: async () => contentOf(await client.GET("/v1/teams")) });
  const gpus = useGpus();
  if (who.error && !who.data) return <Problem error={who.error} retry={() => void who.refetch()} />;
  if (!who.data) return <Skeleton variant="rectangular" height={240} />;
  const { user, groups, namespaces, everywhere, operator } = who.data;
  const mine = myTeamsIn(teams.data?.items ?? []);
  const guaranteed = rowsOf(gpus.data?.guarantees ?? []).filter(({ team }) => namespaces.some(({ namespace, role }) => namespace === team && role !== "viewer"));
  return (
    <Section title="Who I am">
      <Typography sx={{ overflowWrap: "anywhere" }}>{user}</Typography>
      {operator && <Faint>You are an operator: you may drain nodes and return them.</Faint>}
      <Heading>My rights</Heading>
      {namespaces.length ? (
        <PlainList>
          {everywhere && (
            <li>
              All namespaces: {everywhere}
              <Faint>{MEANINGS[everywhere]}. Below are those with a team or a run; you can type the name of any other one.</Faint>
            </li>
          )}
          {namespaces.map(({ namespace, role }) => (
            <li key={namespace}>
              <Link to={`/history?team=${encodeURIComponent(namespace)}`}>{namespace}</Link>: {role}
              <Faint>{MEANINGS[role]}</Faint>
            </li>
          ))}
        </PlainList>
      ) : (
        <Typography color="textSecondary">You may see no team's runs yet. Your operators can give you a role in a team.</Typography>
      )}
      {mine.length > 0 && (
        <>
          <Heading>My teams</Heading>
          <PlainList>
            {mine.map(({ name, namespaces, leads }) => (
              <li key={name}>
                {name}
                <Faint>
                  {[`Runs in ${namespaces.join(", ")}`, leads.length && `led by ${leads.join(", ")}`].filter(Boolean).join("; ")}
                </Faint>
              </li>
            ))}
          </PlainList>
        </>
      )}
      {guaranteed.length > 0 && (
        <>
          <Heading>What my teams are guaranteed</Heading>
          <PlainList>
            {guaranteed.map((row) => (
              <li key={`${row.team} ${row.what}`}>
                {row.team}
                <Faint>{inWords(row)}</Faint>
              </li>
            ))}
          </PlainList>
        </>
      )}
      {teams.error && <Problem error={teams.error} retry={() => void teams.refetch()} />}
      {groups.length > 0 && (
        <>
          <Heading>My groups</Heading>
          <PlainList>
            {groups.map((group) => (
              <li key={group}>{group}</li>
            ))}
          </PlainList>
        </>
      )}
      <Typography sx={{ mt: 4 }}>
        <Link to="/policy">The policy of the operators</Link>
      </Typography>
      <Box sx={{ mt: 4 }}>
        <CopyLine text="kaji whoami" />
      </Box>
    </Section>
  );
}

function Heading({ children }: { children: string }) {
  return (
    <Typography variant="h3" sx={{ fontSize: 14, fontWeight: 600, mt: 4, mb: 1 }}>
      {children}
    </Typography>
  );
}
