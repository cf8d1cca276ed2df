import { useEffect, useState } from "react";
import { serverNow } from "../../api/clock";

/** Return the present time in milliseconds, updated every `everySeconds`, for ages of data from the server. `clock` is the server's by default. */
export function useNow(everySeconds = 1, clock = serverNow): number {
  const [now, setNow] = useState(clock);
  useEffect(() => {
    const timer = window.setInterval(() => setNow(clock()), everySeconds * 1_000);
    return () => window.clearInterval(timer);
  }, [everySeconds, clock]);
  return now;
}
