import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import { PartBoundary } from "../app/Broken";
import { later } from "../app/parts";
import type { Item } from "../beside/address";
import { SidePanel } from "../beside/SidePanel";
import { findingOf, phaseOf } from "../run/status";
import { useRun } from "../run/useRun";
import { RunTitle } from "./RunTitle";
import type { Row } from "./rows";

const RunPage = later(async () => (await import("../run/RunPage")).RunPage);

interface Properties {
  run: Item;
  /** The run at which the keyboard is; its name and state are shown at once, before all of it. */
  row: Row | null;
  close: () => void;
  toPage: () => void;
}

/** A run beside the list. */
export function RunBeside({ run: { namespace, name }, row, close, toPage }: Properties) {
  const { data } = useRun(namespace, name);
  const isAhead = row !== null && (row.name !== name || row.namespace !== namespace);
  const known = isAhead || !data ? row : { name: data.title, phase: phaseOf(data), finding: findingOf(data) };
  const waiting = <Skeleton variant="rectangular" height={320} sx={{ mt: 3 }} />;
  return (
    <SidePanel
      label={isAhead ? `Run ${row.namespace}/${row.name}` : `Run ${namespace}/${name}`}
      head={known && <RunTitle title={known.name} phase={known.phase} finding={known.finding} isPart />}
      more={
        <Button size="small" title="Runs open as pages from now on" onClick={toPage}>
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
          <RunPage namespace={namespace} name={name} leave={close} isPart />
        </PartBoundary>
      )}
    </SidePanel>
  );
}
