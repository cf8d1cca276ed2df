/** What-ifs around a form: the same run with more or fewer members, or with another GPU type. */
import { isOffered, type Draft, type Form } from "../form";

/** The number of members that the slider shows; null if there is nothing to slide: the form has a range or a text, or the run has no choice. */
export function membersIn(draft: Draft): number | null {
  if (!isOffered(draft, "members")) return null;
  const text = draft.form.members.trim();
  if (!text) return 1;
  return /^\d{1,6}$/.test(text) ? Number(text) : null;
}

/** Return the stops of the slider: 1, 2, 4, … up to twice the wanted number, at least 8, and the wanted number itself. */
export function stopsFor(members: number): number[] {
  const stops = new Set([members]);
  for (let stop = 1; stop <= Math.max(8, 2 * members); stop *= 2) stops.add(stop);
  return [...stops].sort((a, b) => a - b);
}

interface Type {
  type: string;
  total: number;
}

/** Return the GPU types that could be asked for instead; empty unless the form asks for GPUs. */
export function typesFor(form: Form, types: readonly Type[]): string[] {
  if (!form.gpus.trim()) return [];
  return types.filter(({ total }) => total > 0).map(({ type }) => type);
}

/** A part of the server's answer to a what-if. */
interface Outlook {
  starts: boolean;
  start: { message: string; expectedAt?: string | null };
}

/** Return a what-if in a few words. `when` words a time. */
export function inWords({ starts, start }: Outlook, when: (time: string) => string): string {
  if (starts) return "starts now";
  return start.expectedAt ? `waits until ${when(start.expectedAt)}` : "waits; no time known";
}
