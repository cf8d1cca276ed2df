import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { refusalFrom, type Run } from "../api/client";
import { steadyFetch } from "../api/steady";
import { Problem } from "../app/Problem";
import { EventItems, type Event } from "./EventItems";

/** Events of a run and its members, the newest first. */
export function RunEvents({ run }: { run: Run }) {
  const events = useQuery({ queryKey: ["events", run.uid], queryFn: () => read(run), refetchInterval: 5_000 });
  if (events.error && !events.data) return <Problem error={events.error} retry={() => void events.refetch()} />;
  if (!events.data) return <Skeleton variant="rectangular" height={320} />;
  if (!events.data.length)
    return <Typography color="textSecondary">Nothing in the last hour: the cluster forgets events.</Typography>;
  return <EventItems events={events.data} />;
}

async function read(run: Run): Promise<Event[]> {
  const address = `/v1/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}/events`;
  const answer = await steadyFetch(address);
  if (!answer.ok) throw await refusalFrom(answer);
  const lines = (await answer.text()).split("\n").filter((line) => line.trim());
  return lines.map((line) => JSON.parse(line) as Event).reverse();
}
