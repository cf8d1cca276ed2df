import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";

interface Properties {
  label: string;
  value: string;
  choices: readonly string[];
  /** The word for an empty value; without one there is none. */
  nobody?: string;
  choose: (value: string) => void;
}

/** The choice for whom: me, or one of the teams that I lead. */
export function For({ label, value, choices, nobody, choose }: Properties) {
  return (
    <TextField
      select
      size="small"
      label={label}
      value={value}
      onChange={(event) => choose(event.target.value)}
      slotProps={{ inputLabel: { shrink: true }, select: { displayEmpty: true } }}
      sx={{ minWidth: 120, maxWidth: 240 }}
    >
      {nobody && <MenuItem value="">{nobody}</MenuItem>}
      {choices.map((choice) => (
        <MenuItem key={choice} value={choice}>
          {choice}
        </MenuItem>
      ))}
    </TextField>
  );
}
