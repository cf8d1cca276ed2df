import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField, { type TextFieldProps } from "@mui/material/TextField";
import { createContext, useContext, type ReactNode } from "react";
import { Refused, type Fault } from "../api/client";
import { Problem } from "../app/Problem";
import { faultIn, standBeside } from "./faults";

interface Sent {
  error: Error | null;
  isPending: boolean;
  mutate: () => void;
}

interface Properties {
  label: string;
  /** Send the form, once. */
  sent: Sent;
  /** Names of the fields that show their own faults. */
  fields: readonly string[];
  /** Words of the button that sends the form. */
  send: string;
  isComplete: boolean;
  close: () => void;
  children: ReactNode;
}

const Faults = createContext<readonly Fault[]>([]);

/** A form with a few fields. A fault is shown beside its field, or below all fields if it is about none of them. */
export function ShortForm({ label, sent, fields, send, isComplete, close, children }: Properties) {
  const faults = sent.error instanceof Refused ? sent.error.faults : [];
  const problem = standBeside(fields, faults) ? null : sent.error;
  return (
    <Faults value={faults}>
      <Box
        component="form"
        aria-label={label}
        onSubmit={(event) => {
          event.preventDefault();
          sent.mutate();
        }}
        sx={{ display: "grid", gap: 3, my: 3, maxWidth: 560 }}
      >
        {children}
        {problem && <Problem error={problem} />}
        <Box sx={{ display: "flex", gap: 2 }}>
          <Button type="submit" size="small" variant="contained" disabled={!isComplete || sent.isPending}>
            {send}
          </Button>
          <Button size="small" onClick={close}>
            Cancel
          </Button>
        </Box>
      </Box>
    </Faults>
  );
}

type FieldProperties = Omit<TextFieldProps, "name" | "onChange" | "error" | "slotProps"> & {
  name: string;
  change: (text: string) => void;
  maxLength: number;
  autoComplete?: string;
};

/** A text of the form, with what the server says is wrong with it. */
export function ShortFormField({ name, change, helperText, maxLength, autoComplete, ...others }: FieldProperties) {
  const fault = faultIn(useContext(Faults), name);
  return (
    <TextField
      size="small"
      onChange={(event) => change(event.target.value)}
      error={fault !== ""}
      helperText={fault || helperText}
      slotProps={{ htmlInput: { maxLength, autoComplete } }}
      {...others}
    />
  );
}
