import { useCallback, useMemo } from "react";
import { useAddress } from "../address/useAddress";
import { withItem } from "./address";

/** Return what a person looks at in an item as it stands in the address, also while the item's list is beside it; a function that changes a part of it; and one that returns the address with another part. `viewOf` and `parametersOf` must be the same ones each time. */
export function useItemView<V extends object>(
  viewOf: (parameters: URLSearchParams) => V,
  parametersOf: (view: V) => URLSearchParams,
): [V, (part: Partial<V>) => void, (part: Partial<V>) => string] {
  const [parameters, changeAddress] = useAddress();
  const view = useMemo(() => viewOf(parameters), [parameters, viewOf]);
  const changed = useCallback(
    (from: URLSearchParams, part: Partial<V>) => withItem(from, Object.fromEntries(parametersOf({ ...viewOf(from), ...part }))),
    [viewOf, parametersOf],
  );
  const change = useCallback((part: Partial<V>) => changeAddress((newest) => changed(newest, part)), [changeAddress, changed]);
  return [view, change, (part) => `?${changed(parameters, part)}`];
}
