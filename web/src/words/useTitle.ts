import { useEffect } from "react";

/** Name the page in the browser's tab: "bert: Running – Kajitori". */
export function useTitle(words: string): void {
  useEffect(() => {
    document.title = words ? `${words} – Kajitori` : "Kajitori";
  }, [words]);
}
