import { useParams, useSearchParams } from "react-router";
import { listBeside, type Item } from "./address";
import { useOpening } from "./useOpening";

/** Return the item that the address names, null for none, and whether it stands alone: without its list, or on a narrow screen. */
export function useAddressed(list: string): { item: Item | null; isAlone: boolean } {
  const { namespace = "", name = "" } = useParams();
  const [parameters] = useSearchParams();
  const { isWide } = useOpening(list);
  return { item: name ? { namespace, name } : null, isAlone: !isWide || !listBeside(parameters) };
}
