import Box from "@mui/material/Box";
import FormControlLabel from "@mui/material/FormControlLabel";
import MenuItem from "@mui/material/MenuItem";
import Skeleton from "@mui/material/Skeleton";
import Switch from "@mui/material/Switch";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { keepPreviousData, useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { Link } from "react-router";
import { useView } from "../address/useAddress";
import { client, contentOf } from "../api/client";
import { whoAmI } from "../api/signIn";
import { Problem } from "../app/Problem";
import { PastTabs } from "../choices/PastTabs";
import { CopyLine } from "../common/CopyLine";
import { More } from "../common/More";
import { SettledField } from "../common/SettledField";
import { pageOf } from "../sidepanel/address";
import { lineOf } from "../words/commands";
import { Since } from "../words/times/Since";
import { EventItems } from "./EventItems";
import { eventChoiceOf, eventParametersOf, queryOf, runOf } from "./events";

const PAGE = 200;
const REFRESH_MS = 10_000;

/** What happened in the last hour to all runs that the person may see, or to those of one team, the newest first. */
export function EventsPage() {
  const [choice, change] = useView(eventChoiceOf, eventParametersOf);
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const namespaces = who.data?.namespaces.map(({ namespace }) => namespace) ?? [];
  const only = namespaces.length === 1 ? (namespaces[0] ?? "") : "";
  const query = queryOf(choice);
  const events = useInfiniteQuery({
    queryKey: ["all-events", query],
    queryFn: async ({ pageParam }) => contentOf(await client.GET("/v1/events", { params: { query: { ...query, limit: PAGE, continue: pageParam } } })),
    initialPageParam: "",
    getNextPageParam: (page) => page.continue ?? undefined,
    refetchInterval: REFRESH_MS,
    placeholderData: keepPreviousData,
  });
  const shown = useMemo(() => events.data?.pages.flatMap(({ items }) => items) ?? [], [events.data]);
  const leftOut = events.data?.pages[0]?.leftOut ?? 0;
  const isFiltered = choice.warnings || choice.text.trim() !== "";
  const command = choice.team || only;
  return (
    <>
      <PastTabs />
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Events
        </Typography>
        <Since currentAt={events.dataUpdatedAt} error={events.error} />
        <FormControlLabel control={<Switch size="small" checked={choice.warnings} onChange={(_, warnings) => change({ warnings })} />} label="Warnings only" sx={{ mr: 0 }} />
        <SettledField label="Words" value={choice.text} settle={(text) => change({ text })} slotProps={{ htmlInput: { maxLength: 200, autoComplete: "off" } }} sx={{ width: 200 }} />
        {namespaces.length > 1 && (
          <TextField
            select
            size="small"
            label="Team"
            value={choice.team}
            onChange={({ target }) => change({ team: target.value })}
            sx={{ minWidth: 120 }}
            slotProps={{ select: { displayEmpty: true }, inputLabel: { shrink: true } }}
          >
            <MenuItem value="">All</MenuItem>
            {withChosen(namespaces, choice.team).map((namespace) => (
              <MenuItem key={namespace} value={namespace}>
                {namespace}
              </MenuItem>
            ))}
          </TextField>
        )}
      </Box>
      {events.error && !events.data && <Problem error={events.error} retry={() => void events.refetch()} />}
      {!events.data && !events.error && <Skeleton variant="rectangular" height={320} />}
      {events.data && (
        <>
          <Box sx={{ maxWidth: 480, mb: 3 }}>
            <CopyLine text={command ? lineOf("events", { "-N": command }) : "kaji events -A"} />
          </Box>
          {leftOut > 0 && (
            <Typography role="status" sx={{ mb: 3 }}>
              {leftOut === 1 ? "1 team is" : `${leftOut.toLocaleString()} teams are`} left out, because this list has the events of at most 64. Choose a team to see its own.
            </Typography>
          )}
          {!shown.length && <Typography>{isFiltered ? "No event of the last hour fits." : "Nothing in the last hour: the cluster forgets events."}</Typography>}
          <EventItems
            events={shown}
            about={(event) => {
              const run = runOf(event);
              const words = event.object.replace(/^Run\//, "");
              return (
                <>
                  {namespaces.length > 1 && !choice.team && `${event.namespace}/`}
                  {run ? <Link to={pageOf("/runs", { namespace: event.namespace, name: run })}>{words}</Link> : words}{" "}
                </>
              );
            }}
          />
          <More hasMore={events.hasNextPage} isLoading={events.isFetchingNextPage} load={() => void events.fetchNextPage()} />
        </>
      )}
    </>
  );
}

/** Return the namespaces to choose from, with the one of the address. */
function withChosen(namespaces: readonly string[], chosen: string): readonly string[] {
  return chosen && !namespaces.includes(chosen) ? [...namespaces, chosen] : namespaces;
}
