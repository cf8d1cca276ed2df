import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { useTeams } from "./useTeams";

/** The choice of one team among those whose runs the person may see; empty for all. */
export function TeamChooser({ team, choose }: { team: string; choose: (team: string) => void }) {
  const known = useTeams();
  const teams = team && !known.includes(team) ? [...known, team] : known;
  if (teams.length < 2 && !team) return null;
  return (
    <TextField
      select
      size="small"
      label="Team"
      value={team}
      onChange={(event) => choose(event.target.value)}
      slotProps={{ inputLabel: { shrink: true }, select: { displayEmpty: true } }}
      sx={{ minWidth: 120, maxWidth: 240 }}
    >
      <MenuItem value="">All</MenuItem>
      {teams.map((each) => (
        <MenuItem key={each} value={each}>
          {each}
        </MenuItem>
      ))}
    </TextField>
  );
}
