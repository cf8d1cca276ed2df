import Box from "@mui/material/Box";
import { useEffect, useState } from "react";
import { numberWord, valuesOf } from "./trials/trials";
import { useBest, type Sweep } from "./useBest";

const SETTLED_MS = 2_000;

/** The best result of a sweep so far, in words. */
export function BestResult({ sweep, succeeded }: { sweep: Sweep; succeeded: number }) {
  // The rows of a long list pass by; only those that stay are asked for, and a fast sweep is not asked for at each end of a member.
  const asked = useLater(succeeded);
  const best = useBest(sweep, asked);
  const member = best.data?.items[0];
  const by = best.data?.by ?? "";
  const value = member && valuesOf(member.result).get(by);
  if (!member || typeof value !== "number") return null;
  return (
    <Box component="span" title={`the ${best.data?.order} ${by} of ${succeeded} members that succeeded`}>
      {`${by} ${numberWord(value)}`}{" "}
      <Box component="span" sx={{ color: "text.secondary" }}>
        {`member ${member.index}`}
      </Box>
    </Box>
  );
}

/** Return a number as it was the last time when it stayed the same, or `SETTLED_MS` ago. */
function useLater(value: number): number {
  const [later, setLater] = useState(0);
  const [isFirst, setFirst] = useState(true);
  useEffect(() => {
    if (later === value) return;
    const timer = setTimeout(
      () => {
        setLater(value);
        setFirst(false);
      },
      isFirst ? 150 : SETTLED_MS,
    );
    return () => clearTimeout(timer);
  }, [value, later, isFirst]);
  return later;
}
