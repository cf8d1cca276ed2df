import { useCallback, useMemo, useRef, useState } from "react";
import { useLocation, useSearchParams } from "react-router";
import { NewestAddress } from "./newest";

/** Returns the next parameters from the newest ones. */
type Change = (newest: URLSearchParams) => URLSearchParams;

/** Return the parameters of the page's address, and a function that changes them, without an entry in the browser's history unless it is asked for. Each change builds on the one before it, also while the page does not show that one yet. */
export function useAddress(): [URLSearchParams, (change: Change, asEntry?: boolean) => void] {
  const [parameters, setParameters] = useSearchParams();
  const [newest] = useState(() => new NewestAddress());
  newest.arrive(useLocation().key, `${parameters}`);
  const set = useRef(setParameters);
  set.current = setParameters;
  const change = useCallback(
    (changed: Change, asEntry = false) => {
      const next = changed(new URLSearchParams(newest.value));
      newest.ask(`${next}`);
      set.current(next, { replace: !asEntry });
    },
    [newest],
  );
  return [parameters, change];
}

/** Return what a person looks at as it stands in the address, and a function that changes a part of it. The two functions must be the same ones each time. */
export function useView<V extends object>(
  viewOf: (parameters: URLSearchParams) => V,
  parametersOf: (view: V) => URLSearchParams,
): [V, (part: Partial<V>) => void] {
  const [parameters, changeAddress] = useAddress();
  const view = useMemo(() => viewOf(parameters), [parameters, viewOf]);
  const change = useCallback(
    (part: Partial<V>) => changeAddress((newest) => parametersOf({ ...viewOf(newest), ...part })),
    [changeAddress, viewOf, parametersOf],
  );
  return [view, change];
}

/** Return parameters with other values; an empty value removes one. */
export function withValues(parameters: URLSearchParams, values: Readonly<Record<string, string>>): URLSearchParams {
  const next = new URLSearchParams(parameters);
  for (const [key, value] of Object.entries(values)) {
    if (value) next.set(key, value);
    else next.delete(key);
  }
  return next;
}
