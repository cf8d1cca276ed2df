/** Rules of the policy, as the server says them. */
import type { Schemas } from "../api/client";

export type RuleGroup = Schemas["RuleGroupView"];

/** Return the groups with only those rules that contain every word of a text, in their sentence, field or title. */
export function fitting(groups: readonly RuleGroup[], text: string): RuleGroup[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return groups
    .map(({ title, rules }) => ({
      title,
      rules: rules.filter((rule) => {
        const said = `${title} ${rule.field} ${rule.text}`.toLowerCase();
        return words.every((word) => said.includes(word));
      }),
    }))
    .filter(({ rules }) => rules.length);
}
