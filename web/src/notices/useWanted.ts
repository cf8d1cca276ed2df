import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { whoAmI } from "../api/signIn";
import { store, useStored } from "../table/useStored";
import { wantedIn, wantedKey, type Wanted } from "./notices";

/** Return what the signed-in person wants to be told in this browser, and a function that changes it. */
export function useWanted(): { user: string; wanted: Wanted; change: (to: (wanted: Wanted) => Wanted) => void } {
  const user = useQuery({ queryKey: ["whoami"], queryFn: whoAmI }).data?.user ?? "";
  const key = wantedKey(user);
  const [stored] = useStored(key);
  return useMemo(
    () => ({
      user,
      wanted: wantedIn(stored),
      // The newest choice is read again: another tab may have changed it since.
      change: (to) => store(key, JSON.stringify(to(wantedIn(window.localStorage.getItem(key))))),
    }),
    [user, key, stored],
  );
}
