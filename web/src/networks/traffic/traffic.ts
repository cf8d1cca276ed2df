/** Traffic of runs, people, teams and nodes, by class of the addresses at the other end. */
import type { Schemas } from "../../api/client";

export type TrafficRow = Schemas["TrafficRow"];
export type Traffic = Schemas["TrafficList"];
export type Group = "run" | "user" | "namespace" | "node";

export const GROUPS: Readonly<Record<Group, string>> = { run: "Runs", user: "People", namespace: "Teams", node: "Nodes" };

/** Traffic with one class of addresses. */
export interface Flow {
  sent: number;
  received: number;
  sentPerSecond: number;
  receivedPerSecond: number;
}

/** Return a row's traffic with a class of addresses. */
export function flowOf({ classes }: TrafficRow, name: string): Flow {
  const found = classes.find((each) => each.name === name);
  return {
    sent: found?.sent.bytes ?? 0,
    received: found?.received.bytes ?? 0,
    sentPerSecond: found?.sent.bytesPerSecond ?? 0,
    receivedPerSecond: found?.received.bytesPerSecond ?? 0,
  };
}

/** Return the classes of addresses in the rows, the one that orders them first. */
export function classesOf({ items, orderClass }: Traffic): string[] {
  const names = new Set(items.flatMap(({ classes }) => classes.map(({ name }) => name)));
  names.delete(orderClass);
  return [orderClass, ...[...names].sort()];
}

/** Return what the figures leave out, as sentences: they may be less than all traffic. */
export function missingOf({ nodes, kept, hidden = 0 }: Traffic, by: Group): string[] {
  const found: string[] = [];
  if (nodes.counted && nodes.silentCount) found.push(`${many(nodes.silentCount, "node")} told nothing lately, so this may be too little: ${cut(nodes.silent)}.`);
  if (nodes.uncountedPods) found.push(`${many(nodes.uncountedPods, "Pod")} cannot be counted.`);
  if (!kept) found.push("Totals of ended runs are lost when this server stops: it has no store.");
  if (hidden && by === "run") found.push(`${many(hidden, "run")} of teams whose runs you may not list ${hidden === 1 ? "is" : "are"} not shown; the sums by team include ${hidden === 1 ? "it" : "them"}.`);
  return found;
}

/** Return the options of `kaji traffic` for the same rows. */
export function optionsOf(by: Group, orderClass: string): Record<string, string> {
  return { "--by": by === "run" ? "" : by, "--class": orderClass };
}

function many(count: number, word: string): string {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

const MOST = 80;

function cut(text: string): string {
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}
