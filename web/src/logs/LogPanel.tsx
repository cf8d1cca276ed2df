import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useAddress, withValues } from "../address/useAddress";
import type { Run } from "../api/client";
import { pageOf } from "../run/overview/AfterRuns";
import { isFinal } from "../run/data/status";
import { lineText, linkTo, parseLine, wantedIn, withWanted } from "./lines/lineAddress";
import { LogPane, type Place } from "./LogPane";
import { LogTools, type LogOptions } from "./LogTools";
import { keyOf, parseSources, textOf, wordsOf, type Source } from "./feed/sources";
import { PLAIN, useLogSearch } from "./search/useLogSearch";

/** Each pane follows its log on a connection of its own, and a browser has six for a server. */
const MOST_BESIDE = 4;
/** Two logs beside each other have room in a panel beside the list of runs. */
const LEAST_BESIDE_PX = 330;
const OPTIONS_KEY = "kaji-log-options";

/** The logs of a run's members: of any ranks and attempts, merged by time or side by side, with a search on the server. */
export function LogPanel({ run, rank }: { run: Run; rank: number }) {
  const [parameters, changeAddress] = useAddress();
  const [options, setOptions] = useState(readOptions);
  const [place, setPlace] = useState<Place | null>(() => placeOfLine(parameters.get("line")));
  const [hit, setHit] = useState(-1);
  const field = useRef<HTMLInputElement>(null);
  const text = parameters.get("logs") ?? `${rank}`;
  const sources = useMemo(() => parseSources(text) ?? [{ rank, attempt: null }], [text, rank]);
  const path = `/v1/runs/${encodeURIComponent(run.namespace)}/${encodeURIComponent(run.name)}/logs`;
  const asked = useMemo(() => wantedIn(parameters), [parameters.get("search"), parameters.get("regex"), parameters.get("case")]);
  const [found, search] = useLogSearch(path, sources);
  useEffect(() => {
    setHit(-1);
    search(asked);
  }, [search, asked]);
  const beside = parameters.get("beside") === "1" && sources.length > 1;
  const panes = beside ? sources.slice(0, MOST_BESIDE).map((source) => [source]) : [sources];

  const change = (chosen: readonly Source[], isBeside: boolean) => {
    const logs = textOf(chosen).replaceAll(" ", "");
    setPlace(null);
    changeAddress((newest) => withWanted(withValues(newest, { rank: "", line: "", logs, beside: isBeside && chosen.length > 1 ? "1" : "" }), PLAIN));
  };
  const goTo = (next: Place | null) => {
    setPlace(next);
    changeAddress((newest) => withValues(newest, { line: next && "hit" in next ? lineText(next.hit) : "" }));
  };
  const toHit = (step: 1 | -1) => {
    const count = found.hits.length;
    if (!count) return;
    // The first look is at the newest line.
    const next = hit < 0 ? count - 1 : (hit + step + count) % count;
    const chosen = found.hits[next];
    setHit(next);
    if (chosen) goTo({ hit: chosen });
  };
  const press = (event: KeyboardEvent) => {
    if (event.target instanceof HTMLInputElement || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") {
      event.preventDefault();
      field.current?.focus();
    } else if (event.key === "n" || event.key === "N") toHit(event.key === "n" ? 1 : -1);
  };
  return (
    <Box onKeyDown={press}>
      <LogTools
        run={run}
        path={path}
        sources={sources}
        beside={beside}
        change={change}
        options={options}
        setOptions={(next) => {
          setOptions(next);
          localStorage.setItem(OPTIONS_KEY, JSON.stringify(next));
        }}
        field={field}
        asked={asked}
        found={found}
        hit={hit}
        search={(wanted) => changeAddress((newest) => withWanted(newest, wanted))}
        toHit={toHit}
        goTo={goTo}
      />
      <Box sx={{ display: "grid", gap: 3, gridTemplateColumns: `repeat(auto-fit, minmax(min(100%, ${beside ? LEAST_BESIDE_PX : 0}px), 1fr))` }}>
        {panes.map((shown) => (
          <Box key={shown.map(keyOf).join()} sx={{ minWidth: 0 }}>
            {beside && shown[0] && <Typography sx={{ fontWeight: 600, "&::first-letter": { textTransform: "uppercase" } }}>{wordsOf(shown[0])}</Typography>}
            <LogPane
              path={path}
              sources={shown}
              mayGrow={!isFinal(run)}
              wraps={options.wraps}
              hasTimes={options.hasTimes}
              found={found}
              place={placeIn(place, shown, beside)}
              goTo={goTo}
              addressOf={(of) => `${pageOf(run)}?${linkTo(of, run.uid, textOf(sources).replaceAll(" ", ""), parameters)}`}
            />
          </Box>
        ))}
      </Box>
      {beside && sources.length > MOST_BESIDE && (
        <Typography color="textSecondary">The first {MOST_BESIDE} of {sources.length} logs. Merged by time, all are shown.</Typography>
      )}
    </Box>
  );
}

function placeOfLine(line: string | null): Place | null {
  const hit = parseLine(line);
  return hit && { hit };
}

/** Return the place to show in a pane: a line that was found is shown where its log is. */
function placeIn(place: Place | null, shown: readonly Source[], beside: boolean): Place | null {
  if (!place || !beside || !("hit" in place)) return place;
  const { hit } = place;
  return shown.some(({ rank, attempt }) => rank === hit.rank && (attempt === null || attempt === hit.attempt)) ? place : null;
}

function readOptions(): LogOptions {
  try {
    const read = JSON.parse(localStorage.getItem(OPTIONS_KEY) ?? "{}") as Partial<LogOptions>;
    return { wraps: read.wraps === true, hasTimes: read.hasTimes === true };
  } catch {
    return { wraps: false, hasTimes: false };
  }
}
