import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import { useEffect, useState, type RefObject } from "react";
import type { Run } from "../api/client";
import { membersOf } from "../run/data/status";
import type { Place } from "./LogPane";
import { LogSearchField } from "./search/LogSearchField";
import { parseSources, textOf, wordsOf, type Source } from "./feed/sources";
import type { LogSearch, Wanted } from "./search/useLogSearch";

export interface LogOptions {
  wraps: boolean;
  hasTimes: boolean;
}

interface Properties {
  run: Run;
  path: string;
  sources: readonly Source[];
  beside: boolean;
  change: (sources: readonly Source[], beside: boolean) => void;
  options: LogOptions;
  setOptions: (options: LogOptions) => void;
  field: RefObject<HTMLInputElement | null>;
  /** The search in the page's address. */
  asked: Wanted;
  found: LogSearch;
  /** Place of the shown line among those that were found; -1: none is shown. */
  hit: number;
  search: (wanted: Wanted) => void;
  toHit: (step: 1 | -1) => void;
  goTo: (place: Place) => void;
}

const MANY_ATTEMPTS = 200;
/** As high as the text fields beside it. */
const HEIGHT_PX = 37;
const TOGGLE = { height: HEIGHT_PX, color: "text.primary", textTransform: "none" } as const;

/** The controls of the logs: which logs, how they are shown, and the search. */
export function LogTools({ run, path, sources, beside, change, options, setOptions, field, asked, found, hit, search, toHit, goTo }: Properties) {
  const [draft, setDraft] = useState(textOf(sources));
  const [place, setPlace] = useState("");
  const [menu, setMenu] = useState<HTMLElement | null>(null);
  useEffect(() => setDraft(textOf(sources)), [sources]);
  const parsed = parseSources(draft);
  const attempts = run.status.attempts ?? 0;
  const first = sources[0]?.attempt ?? null;
  const attempt = sources.every((source) => source.attempt === first) ? (first ?? 0) : -1;
  const choose = () => parsed && draft !== textOf(sources) && change(parsed, beside);
  const hasMembers = membersOf(run).total > 1 || sources.length > 1 || (sources[0]?.rank ?? 0) > 0;
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "flex-start", gap: 2, mb: 2 }}>
      {hasMembers && (
        <TextField
          size="small"
          label="Ranks"
          value={draft}
          error={!parsed}
          helperText={parsed ? "" : "Write 0-3, 7, or 0@1 for attempt 1"}
          title="Ranks, such as 0-3, 7; 0@1 is rank 0 in attempt 1"
          onChange={(event) => setDraft(event.target.value)}
          onBlur={choose}
          onKeyDown={(event) => event.key === "Enter" && choose()}
          sx={{ width: 120 }}
        />
      )}
      {attempts > 1 && (
        <TextField
          select
          size="small"
          label="Attempt"
          value={attempt}
          onChange={(event) => {
            const chosen = Number(event.target.value) || null;
            change(sources.map((source) => ({ ...source, attempt: chosen })), beside);
          }}
          sx={{ width: 120 }}
        >
          {attempt < 0 && <MenuItem value={-1}>Several</MenuItem>}
          <MenuItem value={0}>Newest</MenuItem>
          {Array.from({ length: Math.min(attempts, MANY_ATTEMPTS) }, (_, index) => attempts - index).map((each) => (
            <MenuItem key={each} value={each}>
              {each}
            </MenuItem>
          ))}
        </TextField>
      )}
      {sources.length > 1 && (
        <ToggleButton sx={TOGGLE} size="small" value="beside" selected={beside} onChange={() => change(sources, !beside)}>
          Side by side
        </ToggleButton>
      )}
      <LogSearchField field={field} asked={asked} found={found} hit={hit} search={search} toHit={toHit} />
      <Box sx={{ flex: 1 }} />
      <TextField
        size="small"
        label="Go to"
        placeholder="10m or a line"
        value={place}
        onChange={(event) => setPlace(event.target.value)}
        onKeyDown={(event) => event.key === "Enter" && place.trim() && goTo(placeOf(place.trim()))}
        title="A time, such as 10m for ten minutes ago or 2026-11-21T14:05:00; or the number of a line. Enter goes there."
        sx={{ width: 130, display: { xs: "none", sm: "inline-flex" } }}
      />
      <ToggleButton sx={TOGGLE} size="small" value="times" selected={options.hasTimes} onChange={() => setOptions({ ...options, hasTimes: !options.hasTimes })}>
        Times
      </ToggleButton>
      <ToggleButton sx={TOGGLE} size="small" value="wrap" selected={options.wraps} onChange={() => setOptions({ ...options, wraps: !options.wraps })}>
        Wrap
      </ToggleButton>
      <Button size="small" variant="outlined" sx={{ height: HEIGHT_PX }} onClick={(event) => setMenu(event.currentTarget)}>
        Download
      </Button>
      <Menu anchorEl={menu} open={menu !== null} onClose={() => setMenu(null)}>
        {sources.map((source) => (
          <MenuItem
            key={wordsOf(source)}
            component="a"
            href={addressOf(path, source)}
            download={`${run.name}-${source.rank}${source.attempt === null ? "" : `-${source.attempt}`}.log`}
            onClick={() => setMenu(null)}
          >
            The whole log of {wordsOf(source)}, with times
          </MenuItem>
        ))}
      </Menu>
    </Box>
  );
}

function placeOf(text: string): Place {
  if (/^\d+$/.test(text)) return { line: text };
  const time = /^\d{4}-/.test(text) ? Date.parse(text) : NaN;
  return { since: Number.isNaN(time) ? text : new Date(time).toISOString() };
}

function addressOf(path: string, { rank, attempt }: Source): string {
  const query = new URLSearchParams({ rank: `${rank}`, timestamps: "true" });
  if (attempt !== null) query.set("attempt", `${attempt}`);
  return `${path}?${query}`;
}
