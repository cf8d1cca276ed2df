import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import type { ReactNode, RefObject } from "react";
import { Problem } from "../app/Problem";
import { Since } from "../words/times/Since";
import type { RunList } from "./data/useRunList";
import { WHOSE, type Whose } from "./filter/whose";

interface Properties {
  title: string;
  list: RunList;
  /** The input of the filter. */
  search: RefObject<HTMLInputElement | null>;
  placeholder: string;
  /** Whether the list has little room, because one of the runs is shown beside it. */
  isNarrow?: boolean;
  children?: ReactNode;
}

/** The head of a list of runs: whose, a filter by typing, and how current the list is. */
export function RunListHead({ title, list: { filter, change, teams, live }, search, placeholder, isNarrow = false, children }: Properties) {
  return (
    <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
      <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
        {title}
      </Typography>
      <Since currentAt={live.currentAt} error={live.error} floats={isNarrow} />
      <ToggleButtonGroup
        size="small"
        exclusive
        value={filter.whose}
        onChange={(_, whose: Whose | null) => whose && change({ whose })}
        aria-label={`Whose ${title.toLowerCase()}`}
      >
        {(Object.keys(WHOSE) as Whose[])
          .filter((whose) => whose !== "team" || filter.whose === "team" || teams?.length)
          .map((whose) => (
            <ToggleButton key={whose} value={whose}>
              {WHOSE[whose]}
            </ToggleButton>
          ))}
      </ToggleButtonGroup>
      <TextField
        size="small"
        inputRef={search}
        value={filter.text}
        onChange={(event) => change({ text: event.target.value })}
        onKeyDown={(event) => event.key === "Escape" && search.current?.blur()}
        placeholder={placeholder}
        slotProps={{ htmlInput: { "aria-label": "Filter", dir: "auto" } }}
        sx={{ width: { xs: "100%", sm: isNarrow ? "100%" : 280 } }}
      />
      {children}
    </Box>
  );
}

/** The lines above the table: why there is none yet, and how many rows wait until the pointer has left the table. */
export function RunListNotices({ list: { live, fresh }, one, many }: { list: RunList; one: string; many: string }) {
  return (
    <>
      {live.error && !live.rows && <Problem error={live.error} />}
      {!live.rows && !live.error && <Skeleton variant="rectangular" height={320} />}
      {fresh > 0 && (
        <Typography role="status" color="textSecondary">
          {fresh} new {fresh === 1 ? one : many}, shown when the pointer leaves the table.
        </Typography>
      )}
    </>
  );
}
