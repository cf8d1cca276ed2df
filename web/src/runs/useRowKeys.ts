import { useEffect, useRef, useState } from "react";

interface Actions {
  open: (index: number) => void;
  search: () => void;
}

/** Move through `count` rows by j and k, open one by Enter, and find the filter by /. Return the selected row; -1 for none. */
export function useRowKeys(count: number, actions: Actions): number {
  const [selected, setSelected] = useState(-1);
  const latest = useRef({ count, actions, selected });
  latest.current = { count, actions, selected: Math.min(selected, count - 1) };

  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (target.closest("input, textarea, button, a, [role=menu]") || event.ctrlKey || event.metaKey || event.altKey) return;
      const { count, actions, selected } = latest.current;
      if (event.key === "j") setSelected(Math.min(selected + 1, count - 1));
      else if (event.key === "k") setSelected(Math.max(selected - 1, 0));
      else if (event.key === "Enter" && selected >= 0) actions.open(selected);
      else if (event.key === "/") {
        event.preventDefault();
        actions.search();
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return latest.current.selected;
}
