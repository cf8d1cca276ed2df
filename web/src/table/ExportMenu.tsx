import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Popover from "@mui/material/Popover";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import { saveFile } from "../common/saveFile";

interface Properties {
  /** The name of the file, without its ending. */
  name: string;
  /** The number of rows that are saved. */
  rows: number;
  /** The command that prints the same rows, unless the page shows it anyway. */
  command?: string;
  /** What the file or the command leaves out; empty for nothing. */
  missing?: string;
  /** Return the rows as CSV. */
  csv: () => string | Promise<string>;
}

/** A button that offers the rows of a table as a file, and the command that prints them. */
export function ExportMenu({ name, rows, command, missing = "", csv }: Properties) {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const close = () => setAnchor(null);
  const saving = useMutation({ mutationFn: async () => saveFile(`${name}.csv`, await csv()), onSuccess: close });
  return (
    <>
      <Button size="small" onClick={(event) => setAnchor(event.currentTarget)} aria-haspopup="dialog" sx={{ display: { xs: "none", sm: "inline-flex" } }}>
        Export
      </Button>
      <Popover anchorEl={anchor} open={anchor !== null} onClose={close} anchorOrigin={{ vertical: "bottom", horizontal: "right" }} transformOrigin={{ vertical: "top", horizontal: "right" }} slotProps={{ paper: { role: "dialog", "aria-label": "Export" } }}>
        <Box sx={{ p: 4, display: "grid", gap: 3, width: 480, maxWidth: "90vw" }}>
          <Button variant="outlined" disabled={!rows || saving.isPending} onClick={() => saving.mutate()}>
            Save {rows.toLocaleString("en")} {rows === 1 ? "row" : "rows"} as CSV
          </Button>
          {saving.error && <Problem error={saving.error} />}
          {command && <CopyLine text={command} wraps />}
          {missing && <Typography color="textSecondary">{missing}</Typography>}
        </Box>
      </Popover>
    </>
  );
}
