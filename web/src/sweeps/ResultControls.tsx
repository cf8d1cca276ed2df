import Box from "@mui/material/Box";
import MenuItem from "@mui/material/MenuItem";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import type { RefObject } from "react";
import type { Order, ValueColumn } from "./trials/trials";
import type { Part, View } from "./view";

interface Properties {
  search: RefObject<HTMLInputElement | null>;
  view: View;
  change: (part: Partial<View>) => void;
  columns: readonly ValueColumn[];
  by: string;
  order: Order;
  counts: { all: number; best: number; failed: number };
}

/** Which members are shown, and what makes one better than another. */
export function ResultControls({ search, view, change, columns, by, order, counts }: Properties) {
  const numbers = columns.filter(({ isNumber }) => isNumber).map(({ name }) => name);
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, my: 3 }}>
      <ToggleButtonGroup size="small" exclusive value={view.part} onChange={(_, part: Part | null) => part && change({ part, sort: "" })} aria-label="Which members">
        <ToggleButton value="all">{`All ${counts.all.toLocaleString("en")}`}</ToggleButton>
        <ToggleButton value="best" disabled={!counts.best}>{`Best ${view.most}`}</ToggleButton>
        <ToggleButton value="failed" disabled={!counts.failed}>{`Failed ${counts.failed.toLocaleString("en")}`}</ToggleButton>
      </ToggleButtonGroup>
      {view.part === "best" && (
        <TextField select size="small" label="How many" value={`${view.most}`} onChange={(event) => change({ most: Number(event.target.value) })} sx={{ width: 100 }}>
          {[10, 20, 50, 100].map((count) => (
            <MenuItem key={count} value={`${count}`}>
              {count}
            </MenuItem>
          ))}
        </TextField>
      )}
      {numbers.length > 0 && (
        <>
          <TextField select size="small" label="What counts" value={numbers.includes(by) ? by : ""} onChange={(event) => change({ by: event.target.value, order: "" })} sx={{ width: 180 }}>
            {numbers.map((name) => (
              <MenuItem key={name} value={name}>
                {name}
              </MenuItem>
            ))}
          </TextField>
          <TextField select size="small" label="Best is" value={order} onChange={(event) => change({ order: event.target.value as Order })} sx={{ width: 110 }}>
            <MenuItem value="lowest">lowest</MenuItem>
            <MenuItem value="highest">highest</MenuItem>
          </TextField>
        </>
      )}
      <TextField
        size="small"
        inputRef={search}
        value={view.text}
        onChange={(event) => change({ text: event.target.value })}
        placeholder={numbers[0] ? `Filter: ${numbers[0]}<0.01, words …` : "Filter by words …"}
        onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
        slotProps={{ htmlInput: { "aria-label": "Filter members" } }}
        sx={{ flex: "1 1 220px", maxWidth: 420 }}
      />
    </Box>
  );
}
