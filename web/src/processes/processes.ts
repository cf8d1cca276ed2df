/** Processes of a member, and the signals that a person may send them. */
import type { Schemas } from "../api/client";

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

/** Return the `kaji` command that sends a signal. */
export function killCommand(name: string, namespace: string, rank: number, signal: Signal, pid: number): string {
  return `kaji exec -N ${namespace} --rank ${rank} ${name} kill -${signal} ${pid}`;
}
