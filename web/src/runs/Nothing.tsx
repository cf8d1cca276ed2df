import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { client, contentOf } from "../api/client";
import { whoAmI } from "../api/signIn";
import { count } from "../words/amounts";
import type { Whose } from "./filter/whose";

interface Properties {
  /** The kind of run: "run" or "sweep". */
  one: string;
  whose: Whose;
  /** Whether there are runs of these people, which do not fit the rest of the filter. */
  any: boolean;
  /** Look at everybody's runs. */
  showAll: () => void;
  /** The way to the first run. */
  children: ReactNode;
}

const WORDS: Record<Exclude<Whose, "all">, string> = { mine: "yours", team: "your team's" };
const REFRESH_MS = 60_000;

/** The words in place of an empty list: what else there is, or how to start. */
export function Nothing({ one, whose, any, showAll, children }: Properties) {
  const isAll = whose === "all";
  const others = useOthers(one === "sweep", !isAll && !any);
  const { data: who } = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  if (any)
    return (
      <Typography color="textSecondary" component="div">
        {isAll ? `No ${one} fits the filter.` : `No ${one} of ${WORDS[whose]} fits the filter.`}
        {!isAll && <ShowAll label={`Filter all ${one}s`} showAll={showAll} />}
      </Typography>
    );
  if (!isAll && others === undefined) return null;
  if (who && !who.namespaces.length && !who.operator) return <NoRole {...who} />;
  return (
    <Box sx={{ maxWidth: 720 }}>
      {!isAll && others ? (
        <Typography component="div" gutterBottom>
          None of the {one}s here is {WORDS[whose]}; there {others === 1 ? "is 1" : `are ${count(others)}`} of others.
          <ShowAll label="Show all" showAll={showAll} />
        </Typography>
      ) : (
        <Typography gutterBottom>There are no {one}s yet.</Typography>
      )}
      {children}
    </Box>
  );
}

function NoRole({ user, groups }: { user: string; groups: readonly string[] }) {
  const own = groups.filter((group) => !group.startsWith("system:"));
  return (
    <Typography sx={{ maxWidth: 720, overflowWrap: "anywhere" }}>
      You have no role in any team yet, so you see no runs. Ask your operators for one, and tell them: you are {user}
      {own.length > 0 && `, and your groups are ${own.join(", ")}`}.
    </Typography>
  );
}

function ShowAll({ label, showAll }: { label: string; showAll: () => void }) {
  return (
    <Button size="small" onClick={showAll} sx={{ ml: 2 }}>
      {label}
    </Button>
  );
}

/** Return the number of all runs that the person may see; undefined while it is not known. */
function useOthers(sweep: boolean, isWanted: boolean): number | undefined {
  const found = useQuery({
    queryKey: ["number-of-runs", sweep],
    queryFn: async () => {
      const query = { fields: ["summary" as const], limit: 1, sweep };
      return contentOf(await client.GET("/v1/runs", { params: { query } })).counts.total;
    },
    enabled: isWanted,
    refetchInterval: REFRESH_MS,
  });
  return found.data;
}
