import { VirtualTable } from "../words/VirtualTable";
import { COLUMNS } from "./columns";
import type { Row } from "./rows";

/** A table of runs. `selected` is the row of the keyboard. */
export function RunTable({ runs, selected }: { runs: readonly Row[]; selected: number }) {
  return (
    <VirtualTable
      label="Runs"
      columns={COLUMNS}
      items={runs}
      minWidth={960}
      keyOf={({ uid }) => uid}
      addressOf={addressOf}
      selected={selected}
      opensOnClick
    />
  );
}

/** The address of a run's page. */
export function addressOf(run: Pick<Row, "namespace" | "name">): string {
  return `/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}`;
}
