import Button from "@mui/material/Button";
import { useState } from "react";
import type { ShownRun } from "../run/data/findRun";
import { ChangeDialog } from "./ChangeDialog";

/** Change the limits of a run without starting it again. */
export function ChangeButton({ run }: { run: ShownRun }) {
  const [isOpen, open] = useState(false);
  return (
    <>
      <Button size="small" variant="outlined" disabled={run.deleting} onClick={() => open(true)}>
        Change limits
      </Button>
      {isOpen && <ChangeDialog run={run} close={() => open(false)} />}
    </>
  );
}
