import { ago, durationUntil, exact } from "./times";
import { useNow } from "./useNow";

interface Properties {
  time: string | undefined;
  /** Say how long it has lasted: "2 h" instead of "2 h ago". */
  lasting?: boolean;
}

/** How long ago a time was; the exact time under the pointer. */
export function Age({ time, lasting = false }: Properties) {
  const now = useNow(10);
  if (!time) return null;
  return (
    <time dateTime={time} title={exact(time)}>
      {lasting ? durationUntil(time, now) : ago(time, now)}
    </time>
  );
}
