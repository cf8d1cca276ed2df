import { useCallback, useEffect, useMemo, useState } from "react";
import { NavigationType, useLocation, useNavigationType, useSearchParams } from "react-router";
import { listBeside } from "../../sidepanel/address";
import { useListView } from "../../sidepanel/useListView";
import { ordered } from "../../table/sorting";
import { useInPlace } from "../../table/useInPlace";
import { SORT_KEYS } from "../columns/columns";
import { FIGURE_KEYS } from "../columns/figureColumns";
import { counted, filterOf, fits, parametersOf, selectionOf, type Filter } from "../filter/filter";
import { listed } from "./listed";
import { uidOf } from "../RunTable";
import { useFigures } from "../columns/useFigures";
import { useMyTeams } from "../filter/useMyTeams";
import { useRuns } from "./useRuns";
import type { Row } from "./rows";
import { useStarts } from "../columns/useStarts";
import { rememberWhose } from "../filter/whose";

const NONE: readonly Row[] = [];
const NO_KEYS: readonly string[] = [];

/** Return a live list of runs with the filter and the order that stand in the address. `only` is a parameter of the Web API's list, such as `sweep=true`. The last figures are those of the runs of which `see` was told, or of all if they decide the order. `counts` has the number of runs in each phase that fit the filter's text. */
export function useRunList(only = "") {
  const [addressed, changeAddress] = useListView(filterOf, parametersOf);
  const [text, setText] = useTypedText(addressed.text);
  const filter = useMemo(() => ({ ...addressed, text }), [addressed, text]);
  const teams = useMyTeams();
  const selection = selectionOf(filter.whose, teams);
  const live = useRuns(selection === null ? null : [only, selection].filter(Boolean).join("&"));
  const [visible, setVisible] = useState(NO_KEYS);
  const byFigures = filter.order !== null && filter.order.by in FIGURE_KEYS;
  const figures = useFigures(visible, byFigures ? selection : null, live.rows ?? NONE);
  const starts = useStarts(live.rows ?? NONE);
  const rows = useMemo(() => listed(live.rows ?? NONE, starts, figures), [live.rows, starts, figures]);
  const named = useMemo(() => rows.filter((run) => fits(run, { text: filter.text, phases: [] })), [rows, filter.text]);
  const counts = useMemo(() => counted(named), [named]);
  const fitting = useMemo(() => ordered(named.filter((run) => fits(run, { text: "", phases: filter.phases })), filter.order, SORT_KEYS), [named, filter]);
  const { rows: shown, fresh, setHovered } = useInPlace(fitting, uidOf, parametersOf(filter).toString());
  const change = (part: Partial<Filter>) => {
    if (part.text !== undefined) setText(part.text);
    if (part.whose !== undefined) rememberWhose(part.whose);
    changeAddress(part);
  };
  const see = useCallback((runs: readonly Row[]) => {
    const uids = runs.map(uidOf);
    setVisible((before) => (before.length === uids.length && before.every((uid, place) => uid === uids[place]) ? before : uids));
  }, []);
  const [parameters] = useSearchParams();
  const isSaid = addressed.whose === "mine" || (listBeside(parameters) ?? parameters).has("whose");
  useEffect(() => {
    // So that a copied address shows others the same runs.
    if (!isSaid) changeAddress({});
  }, [isSaid, changeAddress]);
  return { filter, change, teams, live, counts, shown, fresh, setHovered, see };
}

export type RunList = ReturnType<typeof useRunList>;

/** Return the text of an input whose value also stands in the address. The address follows the typing a moment later, so it sets the text only when the person goes somewhere: back, forward, or by a link. */
function useTypedText(addressed: string) {
  const [text, setText] = useState(addressed);
  const { key } = useLocation();
  const kind = useNavigationType();
  useEffect(() => {
    if (kind !== NavigationType.Replace) setText(addressed);
  }, [key, kind]);
  return [text, setText] as const;
}
