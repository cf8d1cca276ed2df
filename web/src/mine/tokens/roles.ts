/** Roles in teams, in words. */
import type { Schemas } from "../../api/client";

/** The rights of each role. */
export const MEANINGS: Readonly<Record<string, string>> = {
  viewer: "see its runs",
  user: "see and start runs",
  lead: "see and start runs, decide who else may, and make tokens",
};

type Team = Schemas["TeamView"];

export function myTeamsIn(teams: readonly Team[]): Team[] {
  return teams.filter(({ yours }) => yours);
}
