import { useEffect } from "react";

const named = { page: "", item: "" };

/** Name the page in the browser's tab: "bert: Running – Kajitori". The item that is open comes before its page. */
export function useTitle(words: string, of: keyof typeof named = "item"): void {
  useEffect(() => {
    name(of, words);
    return () => name(of, "");
  }, [words, of]);
}

function name(of: keyof typeof named, words: string): void {
  named[of] = words;
  const shown = named.item || named.page;
  document.title = shown ? `${shown} – Kajitori` : "Kajitori";
}
