import { useEffect, useMemo, useState } from "react";
import { NavigationType, useLocation, useNavigationType } from "react-router";
import { useListView } from "../beside/useListView";
import { ordered } from "../table/sorting";
import { useInPlace } from "../table/useInPlace";
import { SORT_KEYS } from "./columns";
import { filterOf, fits, parametersOf, selectionOf, type Filter } from "./filter";
import { uidOf } from "./RunTable";
import { useMyTeams } from "./useMyTeams";
import { useRuns } from "./useRuns";
import type { Row } from "./rows";
import { useStarts } from "./useStarts";

const NONE: readonly Row[] = [];

/** Return a live list of runs with the filter and the order that stand in the address. `only` is a parameter of the Web API's list, such as `sweep=true`. */
export function useRunList(only = "") {
  const [addressed, changeAddress] = useListView(filterOf, parametersOf);
  const [text, setText] = useTypedText(addressed.text);
  const filter = useMemo(() => ({ ...addressed, text }), [addressed, text]);
  const teams = useMyTeams();
  const selection = selectionOf(filter.whose, teams);
  const live = useRuns(selection === null ? null : [only, selection].filter(Boolean).join("&"));
  const rows = useStarts(live.rows ?? NONE);
  const fitting = useMemo(() => ordered(rows.filter((run) => fits(run, filter)), filter.order, SORT_KEYS), [rows, filter]);
  const { rows: shown, fresh, setHovered } = useInPlace(fitting, uidOf, parametersOf(filter).toString());
  const change = (part: Partial<Filter>) => {
    if (part.text !== undefined) setText(part.text);
    changeAddress(part);
  };
  return { filter, change, teams, live, shown, fresh, setHovered };
}

export type RunList = ReturnType<typeof useRunList>;

/** Return the text of an input whose value also stands in the address. The address follows the typing a moment later, so it sets the text only when the person goes back or forward. */
function useTypedText(addressed: string) {
  const [text, setText] = useState(addressed);
  const { key } = useLocation();
  const kind = useNavigationType();
  useEffect(() => {
    if (kind === NavigationType.Pop) setText(addressed);
  }, [key, kind]);
  return [text, setText] as const;
}
