import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import { KINDS, type Kind, type Span } from "./span";

interface Properties {
  span: Span;
  choose: (span: Span) => void;
  /** Label of the time span, such as "Created". */
  label?: string;
  /** Whether any time may be chosen. */
  withAll?: boolean;
}

/** The choice of a time: the last days, a month, or days of one's own. */
export function SpanChooser({ span, choose, label = "Time", withAll = false }: Properties) {
  return (
    <>
      <TextField
        select
        size="small"
        label={label}
        value={span.kind}
        onChange={(event) => choose({ ...span, kind: event.target.value as Kind })}
        sx={{ minWidth: 132 }}
      >
        {[...KINDS]
          .filter(([kind]) => withAll || kind !== "all")
          .map(([kind, word]) => (
            <MenuItem key={kind} value={kind}>
              {word}
            </MenuItem>
          ))}
      </TextField>
      {span.kind === "own" &&
        (["from", "to"] as const).map((end) => (
          <TextField
            key={end}
            size="small"
            type="date"
            label={end === "from" ? "First day" : "Last day"}
            value={span[end]}
            onChange={(event) => choose({ ...span, [end]: event.target.value })}
            slotProps={{ inputLabel: { shrink: true } }}
          />
        ))}
    </>
  );
}
