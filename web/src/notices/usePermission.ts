import { useState } from "react";
import { asked } from "./permission";

/** Return why the browser shows no notices, as far as it was asked, and a function that asks it before it does something. */
export function usePermission(): { refusal: string; ask: (then: () => void) => void } {
  const [refusal, setRefusal] = useState("");
  const ask = async (then: () => void) => {
    const found = await asked();
    setRefusal(found);
    if (!found) then();
  };
  return { refusal, ask: (then) => void ask(then) };
}
