import TextField, { type TextFieldProps } from "@mui/material/TextField";
import { useEffect, useRef, useState } from "react";

const PAUSE_MS = 400;

type Properties = Omit<TextFieldProps, "value" | "onChange" | "size"> & {
  value: string;
  /** Take a text, once the person has paused. */
  settle: (text: string) => void;
};

/** An input for a question to the server: its text is taken once the person pauses. */
export function SettledField({ value, settle, ...others }: Properties) {
  const [text, setText] = useState(value);
  const taken = useRef(value);
  const latest = useRef(settle);
  latest.current = settle;
  useEffect(() => {
    if (value === taken.current) return;
    taken.current = value;
    setText(value);
  }, [value]);
  useEffect(() => {
    if (text === taken.current) return;
    const timer = window.setTimeout(() => {
      taken.current = text;
      latest.current(text.trim());
    }, PAUSE_MS);
    return () => window.clearTimeout(timer);
  }, [text]);
  return <TextField size="small" value={text} onChange={(event) => setText(event.target.value)} {...others} />;
}
