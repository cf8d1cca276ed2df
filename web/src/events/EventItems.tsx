import Box from "@mui/material/Box";
import type { ReactNode } from "react";
import type { Schemas } from "../api/client";
import { Age } from "../words/times/Age";

export type Event = Schemas["EventView"];

/** Events as a list. `about` is what stands before each, such as a link to its run. */
export function EventItems({ events, about }: { events: readonly Event[]; about?: (event: Event) => ReactNode }) {
  return (
    <Box component="ul" sx={{ listStyle: "none", m: 0, p: 0 }}>
      {events.map((event) => (
        <Box
          component="li"
          key={`${event.time} ${event.namespace} ${event.object} ${event.reason} ${event.message}`}
          sx={{ display: "grid", gridTemplateColumns: "104px minmax(0, 1fr)", gap: 3, py: 1, borderBottom: 1, borderColor: "divider" }}
        >
          <Box sx={{ color: "text.secondary" }}>
            <Age time={event.time} />
          </Box>
          <Box sx={{ overflowWrap: "anywhere", color: event.type === "Warning" ? "warning.main" : "text.primary" }}>
            {about?.(event)}
            {event.type === "Warning" && "Warning: "}
            {event.reason}
            {!about && event.object && ` (${event.object})`}: {event.message}
            {event.count > 1 && ` (${event.count} times)`}
          </Box>
        </Box>
      ))}
    </Box>
  );
}
