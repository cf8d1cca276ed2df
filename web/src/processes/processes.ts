/** Processes of a member, and the signals that a person may send them. */
import type { Schemas } from "../api/client";
import { lineOf } from "../words/commands";
import { rangesOf, ranksTitle } from "../why/stacks";

export type Process = Schemas["RunningProcess"];
export type Signal = Schemas["SignalRequest"]["signal"];

/** What each signal does to a program that says nothing else. */
export const SIGNALS: readonly [Signal, string][] = [
  ["USR1", "What the program makes of it, often a checkpoint. A program that does not expect it ends."],
  ["USR2", "What the program makes of it. A program that does not expect it ends."],
  ["HUP", "Many servers read their configuration again. Other programs end."],
  ["INT", "Interrupts it, as Ctrl-C does."],
  ["TERM", "Asks it to end."],
  ["KILL", "Ends it at once."],
  ["QUIT", "Ends it; programs in Java, Go and some others print their stacks."],
  ["STOP", "Pauses it. It keeps its memory and GPUs."],
  ["CONT", "Lets it go on after STOP."],
  ["WINCH", "Tells it that its window has another size."],
];

/** A look at the processes, and when it was taken. */
export interface Look {
  at: number;
  items: readonly Process[];
}

/** Return how many processors each process used between two looks, by PID. A process that is new has none. */
export function processorsUsed(before: Look | null, now: Look): Map<number, number> {
  const found = new Map<number, number>();
  const seconds = before ? (now.at - before.at) / 1000 : 0;
  if (!before || seconds <= 0) return found;
  const earlier = new Map(before.items.map((process) => [process.pid, process]));
  for (const { pid, cpuSeconds, command } of now.items) {
    const known = earlier.get(pid);
    if (known && known.command === command && known.cpuSeconds <= cpuSeconds) found.set(pid, (cpuSeconds - known.cpuSeconds) / seconds);
  }
  return found;
}

/** Return processor time as `kaji top` writes it: "1:02:03", "2:05". */
export function processorTime(seconds: number): string {
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, `${whole % 60}`.padStart(2, "0")];
  return hours ? `${hours}:${`${minutes}`.padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

/** Signals with which `kaji kill` ends the whole run, unless ranks are named. The page has *Stop* for it. */
const ENDS_RUN: ReadonlySet<Signal> = new Set(["INT", "TERM", "KILL", "QUIT"]);

/** Return the signals that can be sent to the programs of these ranks; of all members if no ranks are named. */
export function signalsFor(ranks: string): readonly [Signal, string][] {
  return ranks ? SIGNALS : SIGNALS.filter(([signal]) => !ENDS_RUN.has(signal));
}

/** Return the `kaji` command that sends the programs of members a signal. */
export function killProgramsCommand(name: string, namespace: string, ranks: string, signal: Signal): string {
  return lineOf("kill", { "-N": namespace, "-s": signal, "--rank": ranks }, [name]);
}

/** Return which programs got a signal, and for each reason which did not, as sentences. */
export function programsTold({ signal, items }: Schemas["SignalledPrograms"]): { done: string; failed: string[] } {
  const got = items.filter(({ ignored, error }) => !ignored && !error).map(({ rank }) => rank);
  const ignoring = items.filter(({ ignored }) => ignored).map(({ rank }) => rank);
  const broken = new Map<string, number[]>();
  for (const { rank, error } of items) if (error) broken.set(error, [...(broken.get(error) ?? []), rank]);
  const failed = [...broken].map(([error, ranks]) => `${ranksTitle(ranks)} did not get ${signal}: ${error}`);
  if (ignoring.length) failed.unshift(`${ranksTitle(ignoring)} ${ignoring.length === 1 ? "ignores" : "ignore"} ${signal}: the program is the first process of its container and has no handler for it.`);
  const whose = got.length === 1 ? `The program of rank ${got[0]}` : `The programs of ${got.length.toLocaleString("en")} members`;
  return { done: got.length ? `${whose} got ${signal}${failed.length && got.length > 1 ? `: ranks ${rangesOf(got)}` : ""}.` : "", failed };
}

/** Return the `kaji` command that sends a signal to one process. */
export function killCommand(name: string, namespace: string, rank: number, signal: Signal, pid: number): string {
  return `kaji exec -N ${namespace} --rank ${rank} ${name} kill -${signal} ${pid}`;
}
