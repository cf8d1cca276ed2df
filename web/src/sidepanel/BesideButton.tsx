import Button from "@mui/material/Button";
import { Link, useSearchParams } from "react-router";
import type { Item } from "./address";
import { backBeside } from "./useBeside";
import { useOpening } from "./useOpening";

/** Shows an item, which is a page of its own, beside its list; if there is room for both. `many` is the word for the items. */
export function BesideButton({ list, item, many }: { list: string; item: Item; many: string }) {
  const { isWide, choose } = useOpening(list);
  const [parameters] = useSearchParams();
  if (!isWide) return null;
  return (
    <Button
      size="small"
      component={Link}
      to={backBeside(list, item, parameters.get("tab"))}
      title={`${many} open beside the list from now on`}
      onClick={() => choose(true)}
    >
      Beside the list
    </Button>
  );
}
