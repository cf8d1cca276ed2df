/** Templates of the policy, as `GET /v1/policy` shows them. */
import type { Spec } from "./form";

export interface Template {
  description?: string;
  teams?: string[];
  spec: Spec;
}

export type Templates = Readonly<Record<string, Template>>;

/** Return the templates for members of these teams by name: their teams' own first, then those for everybody. */
export function offered(templates: Templates, mine: readonly string[]): (Template & { name: string })[] {
  const named = Object.entries(templates).map(([name, template]) => ({ name, ...template }));
  const own = named.filter(({ teams }) => teams?.some((team) => mine.includes(team)));
  const common = named.filter(({ teams }) => !teams?.length);
  return [own, common].flatMap((some) => some.sort((a, b) => (a.name < b.name ? -1 : 1)));
}
