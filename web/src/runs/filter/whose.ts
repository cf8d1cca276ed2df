/** Whose runs a list shows if its address does not say: those that this browser showed last, at first one's own. */

export const WHOSE = { mine: "Mine", team: "My team's", all: "All" } as const;
export type Whose = keyof typeof WHOSE;

const KEY = "kajitori-whose";

/** Return a choice; null for any other text. */
export function whoseOf(text: string | null): Whose | null {
  return text !== null && Object.hasOwn(WHOSE, text) ? (text as Whose) : null;
}

/** Return the choice that this browser made last. */
export function rememberedWhose(): Whose {
  return whoseOf(window.localStorage.getItem(KEY)) ?? "mine";
}

/** Remember a choice in this browser. */
export function rememberWhose(whose: Whose): void {
  window.localStorage.setItem(KEY, whose);
}
