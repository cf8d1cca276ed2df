import { bytes } from "../../words/amounts";
import { duration } from "../../words/times/times";
import type { Column } from "../../common/VirtualTable";
import { TrialState } from "./TrialState";
import { valueWord, whyOf, type Trial, type ValueColumn } from "./trials";
import { isUsual, OWN_COLUMNS, type OwnColumn, type Part } from "../view";

const OWN: Record<OwnColumn, Omit<Column<Trial>, "name">> = {
  Member: { width: "80px", phone: "72px", right: true, isLink: true, cell: ({ index }) => `${index}` },
  State: { width: "128px", phone: "112px", cell: ({ state }) => <TrialState state={state} /> },
  Time: { width: "72px", right: true, descending: true, cell: ({ seconds }) => (seconds === null ? "" : duration(seconds)) },
  "Exit code": { width: "88px", right: true, cell: ({ exitCode }) => `${exitCode ?? ""}` },
  Restarts: { width: "88px", right: true, descending: true, cell: ({ restarts }) => `${restarts || ""}` },
  "Peak memory": { width: "112px", right: true, descending: true, cell: ({ peakBytes }) => (peakBytes ? bytes(peakBytes) : "") },
  Node: { width: "minmax(96px, 1fr)", cell: ({ node }) => node ?? "" },
  Why: { width: "minmax(200px, 3fr)", cell: whyOf },
};

/** Return all columns of the table of members: how they ended, and what they wrote, the value that counts first. */
export function trialColumns(columns: readonly ValueColumn[], part: Part, by: string, hasFailures: boolean): Column<Trial>[] {
  const [first, second, ...rest] = OWN_COLUMNS;
  const own = (name: OwnColumn): Column<Trial> => ({ ...OWN[name], name, sort: name });
  const values = [...columns].sort((a, b) => Number(b.name === by) - Number(a.name === by)).map(({ name, isNumber }, place): Column<Trial> => ({
    name: name in OWN ? `${name} (result)` : name,
    sort: `:${name}`,
    width: "minmax(96px, 1fr)",
    right: isNumber,
    ...(place === 0 && { phone: "minmax(0, 1fr)" }),
    cell: ({ values }) => valueWord(values.get(name)),
  }));
  const isExtra = isUsual(values.map(({ sort = "" }) => sort), part, hasFailures);
  return [own(first), own(second), ...values, ...rest.map(own)].map((column) => ({ ...column, isExtra: !isExtra(column.sort ?? "") }));
}
