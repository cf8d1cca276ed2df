import { useEffect, useState } from "react";

/** Return the present time, in milliseconds, again every `everySeconds`: for ages on the page. */
export function useNow(everySeconds = 1): number {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = window.setInterval(() => setNow(Date.now()), everySeconds * 1_000);
    return () => window.clearInterval(timer);
  }, [everySeconds]);
  return now;
}
