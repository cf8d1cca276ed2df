import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import type { Signal } from "./processes";

interface Properties {
  /** Signals, and what each does. */
  signals: readonly [Signal, string][];
  signal: Signal;
  choose: (signal: Signal) => void;
}

/** A choice of signals, with what the chosen one does. */
export function SignalChoice({ signals, signal, choose }: Properties) {
  return (
    <TextField select size="small" label="Signal" value={signal} onChange={(event) => choose(event.target.value as Signal)} helperText={signals.find(([known]) => known === signal)?.[1]}>
      {signals.map(([known]) => (
        <MenuItem key={known} value={known}>
          {known}
        </MenuItem>
      ))}
    </TextField>
  );
}
