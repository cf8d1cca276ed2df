/** The words about the test of a node. */
import type { Schemas } from "../../api/client";

type Test = Schemas["NodeTest"];

/** Return whether a test has not ended. */
export function isUnderTest(test: Test | null | undefined): boolean {
  return test?.state === "asked" || test?.state === "testing";
}

/** Return how far the test of a node is, or how the last one ended. `hasRuns`: runs are on the node, whose end the test waits for. */
export function testWords({ state, says }: Pick<Test, "state" | "says">, hasRuns: boolean): string {
  if (state === "asked" || state === "testing") return hasRuns ? "It begins when the runs on the node have ended." : state === "asked" ? "It begins in a moment." : "It is under way.";
  return [WORDS[state] ?? state, says].filter(Boolean).join(": ");
}

const WORDS: Partial<Record<string, string>> = { passed: "Passed", failed: "Failed", untested: "Not tested yet" };
