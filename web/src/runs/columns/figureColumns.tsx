import type { SortKeys } from "../../table/sorting";
import { count } from "../../words/amounts";
import type { Column } from "../../common/VirtualTable";
import type { ListedRow } from "../data/listed";

const LOSS = "loss";

/** Orders by the last figures, which the browser knows and the Web API's list does not. */
export const FIGURE_KEYS: SortKeys<ListedRow> = {
  gpuUse: ({ figures }) => figures?.gpu ?? null,
  leastGpuUse: ({ figures }) => figures?.leastGpu ?? null,
  loss: ({ figures }) => figures?.value ?? null,
  step: ({ figures }) => figures?.step ?? null,
};

/** Columns of the last figures of runs. */
export const FIGURE_COLUMNS: Column<ListedRow>[] = [
  { name: "GPU use", width: "72px", right: true, sort: "gpuUse", cell: gpuUse },
  { name: "Least GPU", width: "80px", right: true, sort: "leastGpuUse", isExtra: true, cell: ({ figures }) => percent(figures?.leastGpu) },
  { name: "Loss", width: "104px", right: true, sort: "loss", cell: loss },
  { name: "Step", width: "88px", right: true, sort: "step", descending: true, isExtra: true, cell: ({ figures }) => (figures?.step == null ? "" : count(Math.round(figures.step))) },
];

/** Names of the columns that need the last figures. */
export const NEED_FIGURES: ReadonlySet<string> = new Set(FIGURE_COLUMNS.map(({ name }) => name));

/** The median use of a run's GPUs, with the least one under the pointer. */
function gpuUse({ figures }: ListedRow) {
  if (figures?.gpu == null) return "";
  return <span title={`Median of its GPUs in the last minute. Least used: ${percent(figures.leastGpu)}, rank ${figures.leastRank}`}>{percent(figures.gpu)}</span>;
}

/** The last loss, or the last value of the training's main figure with its name. */
function loss({ figures }: ListedRow): string {
  if (figures?.value == null) return "";
  return figures.name === LOSS ? short(figures.value) : `${short(figures.value)} ${figures.name}`;
}

function percent(value: number | null | undefined): string {
  return value == null ? "" : `${value} %`;
}

/** Return a number with four digits: "0.3452", "1.2e-7". */
export function short(value: number): string {
  return `${Number(value.toPrecision(4))}`;
}
