import { useEffect, useState, type Dispatch, type SetStateAction } from "react";
import { EMPTY, type Draft } from "./form";

const KEY = "kajitori-draft";

/** Return the form of this tab and its setter. It outlives a reload and a new sign-in, and ends with the tab. */
export function useDraft(): [Draft, Dispatch<SetStateAction<Draft>>] {
  const [draft, setDraft] = useState(stored);
  useEffect(() => window.sessionStorage.setItem(KEY, JSON.stringify(draft)), [draft]);
  return [draft, setDraft];
}

/** Forget the form, because its run was started. */
export function forgetDraft(): void {
  window.sessionStorage.removeItem(KEY);
}

function stored(): Draft {
  const nothing = { form: EMPTY, base: {} };
  try {
    const { form, base } = JSON.parse(window.sessionStorage.getItem(KEY) ?? "{}") as Partial<Draft>;
    return { form: { ...EMPTY, ...form }, base: base ?? {} };
  } catch {
    return nothing;
  }
}
