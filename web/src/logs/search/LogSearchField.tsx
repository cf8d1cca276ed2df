import Box from "@mui/material/Box";
import IconButton from "@mui/material/IconButton";
import InputAdornment from "@mui/material/InputAdornment";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import Typography from "@mui/material/Typography";
import { useState, type RefObject } from "react";
import { MONOSPACE } from "../../app/theme";
import { bytes } from "../../words/amounts";
import { PLAIN, type LogSearch, type Wanted } from "./useLogSearch";

interface Properties {
  field: RefObject<HTMLInputElement | null>;
  /** The search in the page's address. */
  asked: Wanted;
  found: LogSearch;
  /** Place of the shown line among those that were found; -1: none is shown. */
  hit: number;
  search: (wanted: Wanted) => void;
  toHit: (step: 1 | -1) => void;
}

/** A long sentence beside the arrows does not make them too narrow for a finger. */
const ARROW = { flex: "none", minWidth: 24 } as const;

/** Searches for a text or a regular expression, and goes through the lines that were found. */
export function LogSearchField({ field, asked, found, hit, search, toHit }: Properties) {
  const [wanted, setWanted] = useState(asked);
  const isAsked = wanted.text === found.text && wanted.isRegex === found.isRegex && wanted.matchesCase === found.matchesCase;
  const choose = (part: Partial<Wanted>) => {
    const next = { ...wanted, ...part };
    setWanted(next);
    if (found.text) search(next);
  };
  return (
    <Box sx={{ display: "flex", alignItems: "center", gap: 1, minWidth: 0 }}>
      <TextField
        size="small"
        label="Search"
        value={wanted.text}
        inputRef={field}
        onChange={(event) => {
          setWanted({ ...wanted, text: event.target.value });
          if (!event.target.value) search(PLAIN);
        }}
        onKeyDown={(event) => {
          if (event.key === "Enter" && isAsked) toHit(event.shiftKey ? -1 : 1);
          else if (event.key === "Enter") search(wanted);
          else if (event.key === "Escape") {
            setWanted({ ...wanted, text: "" });
            search(PLAIN);
          }
        }}
        title="Enter searches; then n or Enter is the next line, N the previous one; / comes here"
        slotProps={{
          input: {
            endAdornment: (
              <InputAdornment position="end" sx={{ ml: 1 }} onKeyDown={(event) => event.stopPropagation()}>
                <Option word="Match case" sign="Aa" isOn={wanted.matchesCase} toggle={() => choose({ matchesCase: !wanted.matchesCase })} />
                <Option word="Regular expression" sign=".*" isOn={wanted.isRegex} toggle={() => choose({ isRegex: !wanted.isRegex })} />
              </InputAdornment>
            ),
            sx: { pr: 1 },
          },
        }}
        sx={{ width: 232, flex: "none" }}
      />
      {found.text && (
        <>
          <IconButton size="small" aria-label="Previous line found (N)" disabled={!found.hits.length} onClick={() => toHit(-1)} sx={ARROW}>
            ↑
          </IconButton>
          <IconButton size="small" aria-label="Next line found (n)" disabled={!found.hits.length} onClick={() => toHit(1)} sx={ARROW}>
            ↓
          </IconButton>
        </>
      )}
      <Typography role="status" color={found.error ? "error" : "textSecondary"} sx={{ fontVariantNumeric: "tabular-nums", minWidth: 0, overflowWrap: "anywhere" }}>
        {said(found, hit)}
      </Typography>
    </Box>
  );
}

function Option({ word, sign, isOn, toggle }: { word: string; sign: string; isOn: boolean; toggle: () => void }) {
  return (
    <ToggleButton
      size="small"
      value={word}
      selected={isOn}
      onChange={toggle}
      aria-label={word}
      title={word}
      sx={{ border: 0, minWidth: 26, height: 26, px: 1, fontFamily: MONOSPACE, textTransform: "none", color: "text.secondary", "&.Mui-selected": { color: "primary.main", fontWeight: 700 } }}
    >
      {sign}
    </ToggleButton>
  );
}

function said({ text, hits, matches, isSearching, searchedBytes, error }: LogSearch, hit: number): string {
  if (error) return error.message;
  if (!text) return "";
  const count = matches.toLocaleString();
  if (isSearching) return `${count} so far in ${bytes(searchedBytes)} …`;
  if (!matches) return "not found";
  const lines = matches === 1 ? "line" : "lines";
  const place = hit < 0 ? `${count} ${lines}` : `${(hit + 1).toLocaleString()} of ${count}`;
  return hits.length < matches ? `${place}; the first ${hits.length.toLocaleString()} can be visited` : place;
}
