/** The server's faults about a form, to be shown beside its fields. */
import type { Fault } from "../api/client";

/** Return what is wrong with a field, with the way out; empty if nothing is. */
export function faultIn(faults: readonly Fault[], field: string): string {
  return faults
    .filter((fault) => isAbout(fault, field))
    .map(({ message, hint }) => [message, hint].filter(Boolean).join("; "))
    .join(" ");
}

/** Whether all faults, of which there are some, stand beside one of these fields. */
export function standBeside(fields: readonly string[], faults: readonly Fault[]): boolean {
  return faults.length > 0 && faults.every((fault) => fields.some((field) => isAbout(fault, field)));
}

/** Whether a fault is about a field, named alone or as a field of a run's spec. */
function isAbout(fault: Fault, field: string): boolean {
  return fault.field === field || fault.field === `spec.${field}`;
}
