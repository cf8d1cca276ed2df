import TextField from "@mui/material/TextField";
import type { ReactNode } from "react";
import type { Fault } from "../../api/client";
import { MONOSPACE } from "../../app/theme";

/** The state of a field. */
export interface Shown {
  value: string;
  onChange: (value: string) => void;
  /** The server's fault about the field. */
  faults: readonly Fault[];
}

interface Properties extends Shown {
  label: string;
  help?: string;
  required?: boolean;
  /** As wide as the form. */
  wide?: boolean;
  /** Number of lines at first, where a text may have several. */
  lines?: number;
  /** Text of a program. */
  code?: boolean;
  select?: boolean;
  children?: ReactNode;
}

const MOST_LINES = 12;

/** A field of the form, with its faults in the server's words below it. */
export function Field({
  label,
  value,
  onChange,
  faults,
  help,
  required,
  wide,
  lines,
  code,
  select,
  children,
}: Properties) {
  const sentences = faults.map(({ message, hint }) => (hint ? `${message}; ${hint}` : message));
  const words = [...new Set(sentences)].join(". "); // one text can stand for several fields of the request
  return (
    <TextField
      size="small"
      label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      error={faults.length > 0}
      helperText={words || help}
      required={required}
      select={select}
      multiline={lines !== undefined}
      minRows={lines}
      maxRows={lines && MOST_LINES}
      sx={wide || lines ? { gridColumn: "1 / -1" } : undefined}
      slotProps={{
        htmlInput: {
          spellCheck: false,
          autoCapitalize: "off",
          ...(code && { style: { fontFamily: MONOSPACE, fontSize: 12.5 } }),
        },
      }}
    >
      {children}
    </TextField>
  );
}
