import { useEffect, useState } from "react";

/** Return a value once it has not changed for a while, so that typing does not ask the server for every letter. */
export function useSettled<T>(value: T, milliseconds = 400): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), milliseconds);
    return () => window.clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
