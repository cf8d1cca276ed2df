/** The rows of the list of runs for a file, and the command that prints them. */
import { pairsOf } from "../../labels/labels";
import { lineOf } from "../../words/commands";
import { csvTable, type CsvColumns } from "../../words/csv";
import type { Filter } from "../filter/filter";
import type { Row } from "../data/rows";
import type { FiguresByUid } from "./useFigures";

const LABEL = /^[\w./-]+=[\w.-]*$/;

/** Return runs as CSV, with their last figures. */
export function csvOf(runs: readonly Row[], figures: FiguresByUid): string {
  const columns: CsvColumns<Row> = {
    namespace: (run) => run.namespace,
    name: (run) => run.name,
    owner: (run) => run.owner,
    phase: (run) => run.phase,
    finding: (run) => run.finding,
    reason: (run) => run.reason,
    message: (run) => run.message,
    members: (run) => run.members.total,
    running: (run) => run.members.running,
    gpus: (run) => run.gpus,
    gpuType: (run) => run.gpuType,
    restarts: (run) => run.restarts,
    createdAt: (run) => run.createdAt,
    queuedAt: (run) => run.queuedAt,
    startedAt: (run) => run.startedAt,
    finishedAt: (run) => run.finishedAt,
    gpuUsePercent: ({ uid }) => figures.get(uid)?.gpu,
    leastGpuUsePercent: ({ uid }) => figures.get(uid)?.leastGpu,
    step: ({ uid }) => figures.get(uid)?.step,
    figure: ({ uid }) => figures.get(uid)?.name,
    value: ({ uid }) => figures.get(uid)?.value,
    image: (run) => run.image,
    labels: (run) => pairsOf(run.labels).join(" "),
    note: (run) => run.note,
    uid: (run) => run.uid,
  };
  return csvTable(runs, columns);
}

/** Return the command that lists these runs, and what of the filter it has no word for. */
export function commandOf({ whose, text, phases }: Filter): { command: string; missing: string } {
  const words = text.split(/\s+/).filter(Boolean);
  const labels = words.filter((word) => LABEL.test(word));
  const filters = [...labels.map((label) => `label=${label}`), ...(phases.length ? [`status=${phases.join(",").toLowerCase()}`] : [])];
  const command = lineOf("ps", {}, ["-a", ...(whose === "mine" ? [] : ["--all-users"]), ...filters.flatMap((filter) => ["-f", filter])]);
  const rest = [...(whose === "team" ? ["the choice of your teams"] : []), ...(labels.length < words.length ? ["words that are no labels"] : [])];
  return { command, missing: rest.length ? `The command leaves out ${rest.join(" and ")}.` : "" };
}
