import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { useWaiting } from "./useRoom";

/** A choice among the waiting runs, the person's own first: the map then shows what would make room. Its place is the same if no run waits, so that nothing beside it moves. */
export function RoomChoice({ room, choose }: { room: string; choose: (room: string) => void }) {
  const waiting = useWaiting();
  const isEmpty = !waiting.length && !room;
  return (
    <TextField select size="small" label="What makes room for" disabled={isEmpty} title={isEmpty ? "No run waits" : undefined} value={room} onChange={(event) => choose(event.target.value)} sx={{ width: 220 }}>
      <MenuItem value="">No run</MenuItem>
      {[...new Set(room ? [room, ...waiting] : waiting)].map((key) => (
        <MenuItem key={key} value={key}>
          {key}
        </MenuItem>
      ))}
    </TextField>
  );
}
