import Button from "@mui/material/Button";
import { Suspense, useState } from "react";
import { later } from "../../app/parts";
import type { Row } from "../data/rows";

const PruneDialog = later(async () => (await import("./PruneDialog")).PruneDialog);

/** Delete one's own ended runs by their age. `mine` are all of the person's runs. */
export function PruneButton({ mine }: { mine: readonly Row[] }) {
  const [isOpen, open] = useState(false);
  return (
    <>
      <Button size="small" onClick={() => open(true)} sx={{ display: { xs: "none", sm: "inline-flex" } }}>
        Clean up
      </Button>
      {isOpen && (
        <Suspense>
          <PruneDialog mine={mine} close={() => open(false)} />
        </Suspense>
      )}
    </>
  );
}
