import Button from "@mui/material/Button";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import type { RefObject } from "react";
import { duration } from "../words/times/times";
import { SPANS, type Rowed } from "./timeline/timeline";

interface Properties {
  asTable: boolean;
  rowed: Rowed;
  hours: number;
  text: string;
  search: RefObject<HTMLInputElement | null>;
  /** Change a value of the page's address. */
  change: (key: string, value: string) => void;
  /** Whether a what-if for a new run is offered. */
  canTry: boolean;
}

/** The controls of the page of the queue: what it shows, and how. */
export function QueueControls({ asTable, rowed, hours, text, search, change, canTry }: Properties) {
  return (
    <>
      <ToggleButtonGroup size="small" exclusive value={asTable} onChange={(_, next) => next !== null && change("as", next ? "table" : "")} aria-label="Show as">
        <ToggleButton value={false}>Timeline</ToggleButton>
        <ToggleButton value={true}>Table</ToggleButton>
      </ToggleButtonGroup>
      {!asTable && (
        <>
          <ToggleButtonGroup size="small" exclusive value={rowed} onChange={(_, next) => next && change("rows", next === "node" ? "node" : "")} aria-label="Rows">
            <ToggleButton value="type">By GPU type</ToggleButton>
            <ToggleButton value="node">By node</ToggleButton>
          </ToggleButtonGroup>
          <TextField select size="small" label="Span" value={`${hours}`} onChange={(event) => change("hours", event.target.value)} sx={{ width: 110 }}>
            {SPANS.map((span) => (
              <MenuItem key={span} value={`${span}`}>
                {duration(span * 3_600)}
              </MenuItem>
            ))}
          </TextField>
        </>
      )}
      <TextField
        size="small"
        inputRef={search}
        value={text}
        onChange={(event) => change("text", event.target.value)}
        onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
        placeholder="Run, owner, type, node …"
        slotProps={{ htmlInput: { "aria-label": "Filter" } }}
        sx={{ width: { xs: "100%", sm: 230 } }}
      />
      {canTry && (
        <Button variant="outlined" onClick={() => change("try", "new")}>
          What if …
        </Button>
      )}
    </>
  );
}
