import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import type { ReactNode } from "react";
import { PartBoundary } from "../app/Broken";
import type { Item } from "../sidepanel/address";
import { SidePanel } from "../sidepanel/SidePanel";
import { findingOf, phaseOf } from "../run/data/status";
import { useRun } from "../run/data/useRun";
import { RunTitle } from "./RunTitle";
import type { Row } from "./data/rows";

interface Properties {
  word: "Run" | "Sweep";
  run: Item;
  /** The run at which the keyboard is; its name and state are shown at once, before all of it. */
  row: Row | null;
  close: () => void;
  toPage: () => void;
  /** All of the run. */
  children: ReactNode;
}

/** A run or sweep beside its list. */
export function RunBeside({ word, run: { namespace, name }, row, close, toPage, children }: Properties) {
  const { data } = useRun(namespace, name);
  const isAhead = row !== null && (row.name !== name || row.namespace !== namespace);
  const known = isAhead || !data ? row : { name: data.title, phase: phaseOf(data), finding: findingOf(data) };
  const waiting = <Skeleton variant="rectangular" height={320} sx={{ mt: 3 }} />;
  return (
    <SidePanel
      label={isAhead ? `${word} ${row.namespace}/${row.name}` : `${word} ${namespace}/${name}`}
      head={known && <RunTitle title={known.name} phase={known.phase} finding={known.finding} isPart />}
      more={
        <Button size="small" title={`${word}s open as pages from now on`} onClick={toPage}>
          Full page
        </Button>
      }
      close={close}
      takesFocus
      isClosedByList
    >
      {isAhead ? (
        waiting
      ) : (
        <PartBoundary key={`${namespace}/${name}`} fallback={waiting}>
          {children}
        </PartBoundary>
      )}
    </SidePanel>
  );
}
