import { ago, exact } from "./times";
import { useNow } from "./useNow";

/** How long ago a time was; the exact time under the pointer. */
export function Age({ time }: { time: string | undefined }) {
  const now = useNow(10);
  if (!time) return null;
  return (
    <time dateTime={time} title={exact(time)}>
      {ago(time, now)}
    </time>
  );
}
