/** What the policy guarantees to teams, and how much of it their runs use. */
import type { Schemas } from "../api/client";
import { bytes, count, cpus } from "../words/amounts";

export type Guarantee = Schemas["GuaranteeView"];

/** One guaranteed resource of a team. Amounts are words; `part` is how much of it is in use, from 0 to 1. */
export interface Row {
  team: string;
  what: string;
  used: string;
  total: string;
  left: string;
  /** Use beyond the guarantee; empty if there is none. */
  borrowed: string;
  part: number;
}

/** Return a row for each resource that a team is guaranteed, in the order of the policy. */
export function rowsOf(guarantees: readonly Guarantee[]): Row[] {
  return guarantees.flatMap(({ namespace, gpuType, gpus, cpuMillis, memoryBytes, nodes }) => {
    const kinds = [
      { what: gpuType ? `${gpuType} GPUs` : "GPUs", amount: gpus, shown: count },
      { what: "cores", amount: cpuMillis, shown: cpus },
      { what: "memory", amount: memoryBytes, shown: bytes },
      { what: "whole nodes", amount: nodes, shown: count },
    ];
    return kinds.flatMap(({ what, amount, shown }) => {
      if (!amount) return [];
      const { total, used } = amount;
      return [
        {
          team: namespace,
          what,
          used: shown(used),
          total: shown(total),
          left: shown(Math.max(0, total - used)),
          borrowed: used > total ? shown(used - total) : "",
          part: total ? Math.min(1, used / total) : 1,
        },
      ];
    });
  });
}

/** Return a guarantee and its use in a few words: "48 of 64 h100 GPUs in use". */
export function inWords({ what, used, total, borrowed }: Row): string {
  return `${used} of ${total} ${what} in use${borrowed ? `; ${borrowed} borrowed, which may be taken back` : ""}`;
}

/** Return what a team's guarantee means for a run with GPUs of a type, in a sentence; empty if policy guarantees nothing to anybody. An empty type stands for any. */
export function hintFor(guarantees: readonly Guarantee[], team: string, gpuType: string): string {
  const ofGpus = guarantees.filter(({ gpus }) => gpus);
  if (!ofGpus.length || !team) return "";
  const own = ofGpus.filter(({ namespace, gpuType: type }) => namespace === team && (!gpuType || !type || type === gpuType));
  if (!own.length) return `${team} is guaranteed no ${gpuType ? `${gpuType} ` : ""}GPUs: what it uses may be taken back.`;
  const words = rowsOf(own)
    .filter(({ what }) => what.endsWith("GPUs"))
    .map(({ what, used, total, borrowed }) => (borrowed ? `${used} ${what} where it is guaranteed ${total}` : `${used} of its ${total} ${what}`));
  return `${team} uses ${words.join(" and ")}; more is borrowed, and may be taken back.`;
}
