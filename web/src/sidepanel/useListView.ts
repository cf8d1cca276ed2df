import { useCallback, useMemo } from "react";
import { useAddress } from "../address/useAddress";
import { listBeside, withList } from "./address";

/** Return what a person wants to see of a list as it stands in the address, also while one of its items is beside it; and a function that changes a part of it. The two functions must be the same ones each time. */
export function useListView<V extends object>(
  viewOf: (parameters: URLSearchParams) => V,
  parametersOf: (view: V) => URLSearchParams,
): [V, (part: Partial<V>) => void] {
  const [parameters, changeAddress] = useAddress();
  const view = useMemo(() => viewOf(listBeside(parameters) ?? parameters), [parameters, viewOf]);
  const change = useCallback(
    (part: Partial<V>) =>
      changeAddress((newest) => {
        const list = listBeside(newest);
        const changed = parametersOf({ ...viewOf(list ?? newest), ...part });
        return list ? withList(newest, changed) : changed;
      }),
    [changeAddress, viewOf, parametersOf],
  );
  return [view, change];
}
