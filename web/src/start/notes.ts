import type { Schemas } from "../api/client";
import { sentence } from "../words/sentence";

/** Return what policy does to a request as sentences: all defaults in one, then each change. */
export function notesOf(findings: readonly Schemas["Finding"][]): string[] {
  const isDefault = ({ code }: Schemas["Finding"]) => code.endsWith("Defaulted");
  const defaults = findings.filter(isDefault).map(({ message }) => message);
  const others = findings.filter((finding) => !isDefault(finding)).map(({ message }) => sentence(message));
  return [...(defaults.length ? [`Defaults: ${defaults.join(", ")}.`] : []), ...others];
}
