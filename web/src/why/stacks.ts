/** Where the ranks of a run are in their program, as texts. */
import type { Schemas } from "../api/client";
import { textOf } from "../logs/feed/sources";

type Group = Schemas["StackGroupView"];
type MemberStacks = Schemas["MemberStacksView"];
type Thread = Schemas["ThreadView"];

/** Return the name of ranks: "Rank 2", "3 ranks: 0-1, 5". */
export function ranksTitle(ranks: readonly number[]): string {
  const text = rangesOf(ranks);
  return ranks.length === 1 ? `Rank ${text}` : `${ranks.length.toLocaleString("en")} ranks: ${text}`;
}

/** Return ranks with ranges: "0-1, 5". */
export function rangesOf(ranks: readonly number[]): string {
  return textOf(ranks.map((rank) => ({ rank, attempt: null })));
}

/** Return the sentences of an answer without those that its groups say. */
export function wordsBeside(words: readonly string[], groups: readonly Group[]): string[] {
  const said = new Set(groups.map((group) => `${group.words.charAt(0).toUpperCase()}${group.words.slice(1)}.`));
  return words.filter((sentence) => !said.has(sentence));
}

/** Return what sets a group apart from the others; empty if nothing does. */
export function markOf({ ranks, odd }: Group, late: readonly number[]): string {
  const behind = ranks.filter((rank) => late.includes(rank));
  if (behind.length) return behind.length === ranks.length ? "Late" : `Late: ${rangesOf(behind)}`;
  return odd ? "The others may wait here" : "";
}

/** Return the stacks of one rank as `kaji stacks` prints them, the innermost call first. */
export function stackText({ processes, leftOut = 0, ...member }: MemberStacks): string {
  const parts = processes.map((process) => {
    const lines = [`Rank ${member.rank} on ${member.node}, process ${process.pid}: ${process.command}`];
    if (process.trouble) {
      const kernel = process.waitsIn ? `, waits in ${process.waitsIn}` : "";
      lines.push(`  no stack (state ${process.state}${kernel}): ${process.trouble}`);
    }
    for (const thread of process.threads ?? []) lines.push(...threadLines(thread, "Thread"));
    for (const thread of process.native ?? []) lines.push(...threadLines(thread, "Native code and kernel, thread"));
    if (process.nativeTrouble) lines.push(`  no calls in native code: ${process.nativeTrouble}`);
    return lines.join("\n");
  });
  return [...parts, ...(leftOut ? [`and ${leftOut} more processes`] : [])].join("\n\n");
}

function threadLines({ name, active, frames }: Thread, title: string): string[] {
  const calls = frames.map(({ function: called, file, line }) => {
    const isNative = !line && file.startsWith("[");
    return `    ${called} ${isNative ? file : `(${file}:${line})`}`;
  });
  return [`  ${title} ${name || "?"} (${active ? "active" : "waits"})`, ...calls];
}
