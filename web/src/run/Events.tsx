import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { refusalFrom, type Run, type Schemas } from "../api/client";
import { steadyFetch } from "../api/steady";
import { Problem } from "../app/Problem";
import { Age } from "../words/times/Age";

type Event = Schemas["EventView"];

/** Events of a run and its members, the newest first. */
export function Events({ run }: { run: Run }) {
  const events = useQuery({ queryKey: ["events", run.uid], queryFn: () => read(run), refetchInterval: 5_000 });
  if (events.error && !events.data) return <Problem error={events.error} retry={() => void events.refetch()} />;
  if (!events.data) return <Skeleton variant="rectangular" height={320} />;
  if (!events.data.length)
    return <Typography color="textSecondary">Nothing in the last hour: the cluster forgets events.</Typography>;
  return (
    <Box component="ul" sx={{ listStyle: "none", m: 0, p: 0 }}>
      {events.data.map((event) => (
        <Box
          component="li"
          key={`${event.time} ${event.object} ${event.reason} ${event.message}`}
          sx={{ display: "grid", gridTemplateColumns: "104px minmax(0, 1fr)", gap: 3, py: 1, borderBottom: 1, borderColor: "divider" }}
        >
          <Box sx={{ color: "text.secondary" }}>
            <Age time={event.time} />
          </Box>
          <Box sx={{ overflowWrap: "anywhere", color: event.type === "Warning" ? "warning.main" : "text.primary" }}>
            {event.type === "Warning" && "Warning: "}
            {event.reason} {event.object && `(${event.object})`}: {event.message}
            {event.count > 1 && ` (${event.count} times)`}
          </Box>
        </Box>
      ))}
    </Box>
  );
}

async function read(run: Run): Promise<Event[]> {
  const address = `/v1/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}/events`;
  const answer = await steadyFetch(address);
  if (!answer.ok) throw await refusalFrom(answer);
  const lines = (await answer.text()).split("\n").filter((line) => line.trim());
  return lines.map((line) => JSON.parse(line) as Event).reverse();
}
