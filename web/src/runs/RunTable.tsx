import { pageOf } from "../sidepanel/address";
import type { ReturningFocus } from "../sidepanel/useBeside";
import { stateOf } from "../states/states";
import type { Order } from "../table/sorting";
import type { Selection } from "../table/useSelection";
import { VirtualTable, type Column } from "../common/VirtualTable";
import type { Row } from "./data/rows";
import type { ListedRow } from "./data/listed";

interface Properties {
  runs: readonly ListedRow[];
  columns: readonly Column<ListedRow>[];
  minWidth: number;
  addressOf: (run: ListedRow) => string;
  /** The run at which the keyboard is. */
  current: ListedRow | null;
  focus: ReturningFocus;
  selection: Selection<ListedRow>;
  order: Order | null;
  sort: (order: Order | null) => void;
  onHover: (hovered: boolean) => void;
  onVisible: ((runs: readonly ListedRow[]) => void) | undefined;
}

/** A table of runs. */
export function RunTable({ runs, ...others }: Properties) {
  return (
    <VirtualTable
      label="Runs"
      items={runs}
      keyOf={uidOf}
      nameOf={({ name, phase, finding, starts, message }) => [name, stateOf(phase, finding).word, starts, message].filter(Boolean).join(", ")}
      opensOnClick
      {...others}
    />
  );
}

export function uidOf({ uid }: Row): string {
  return uid;
}

/** The address of a run's page. */
export function addressOf(run: Pick<Row, "namespace" | "name">): string {
  return pageOf("/runs", run);
}
