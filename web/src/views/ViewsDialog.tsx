import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Dialog from "@mui/material/Dialog";
import DialogActions from "@mui/material/DialogActions";
import DialogContent from "@mui/material/DialogContent";
import DialogTitle from "@mui/material/DialogTitle";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useState, type FormEvent } from "react";
import { columnsKey } from "../table/columns/useColumns";
import { useViews } from "./useViews";
import { MOST_LETTERS, renamed, withView, without, type Table, type View } from "./views";

interface Properties {
  table: Table;
  /** The parameters of the address that shows what is shown now. */
  parameters: string;
  close: () => void;
}

const FIELD = { htmlInput: { maxLength: MOST_LETTERS, dir: "auto", autoComplete: "off" } };

/** A dialog that saves what is shown as a view, and renames and deletes views. */
export function ViewsDialog({ table, parameters, close }: Properties) {
  const [views, setViews] = useViews(table);
  const [name, setName] = useState("");
  const [deleted, setDeleted] = useState<View | null>(null);
  const wanted = name.trim();
  const save = (event: FormEvent) => {
    event.preventDefault();
    if (!wanted) return;
    setViews(withView(views, { name: wanted, parameters, columns: window.localStorage.getItem(columnsKey(table)) }));
    close();
  };
  return (
    <Dialog open onClose={close} fullWidth maxWidth="xs" aria-labelledby="views-title">
      <DialogTitle id="views-title">Views</DialogTitle>
      <DialogContent sx={{ display: "grid", gap: 3 }}>
        <Typography color="textSecondary">A view is the filter, the order and the columns that you see now, under a name. This browser remembers it; others get the filter and the order by the link in the address.</Typography>
        <Box component="form" onSubmit={save} sx={{ display: "flex", gap: 2 }}>
          <TextField autoFocus size="small" label="Name of this view" value={name} onChange={(event) => setName(event.target.value)} slotProps={FIELD} sx={{ flex: 1 }} />
          <Button type="submit" variant="contained" disabled={!wanted}>
            {views.some((view) => view.name === wanted) ? "Replace" : "Save"}
          </Button>
        </Box>
        {views.map((view) => (
          <SavedView key={view.name} view={view} rename={(next) => setViews(renamed(views, view.name, next))} remove={() => {
            setViews(without(views, view.name));
            setDeleted(view);
          }} />
        ))}
        {deleted && (
          <Typography role="status">
            <bdi>{deleted.name}</bdi> is deleted.
            <Button
              size="small"
              onClick={() => {
                setViews(withView(views, deleted));
                setDeleted(null);
              }}
              sx={{ ml: 2 }}
            >
              Undo
            </Button>
          </Typography>
        )}
      </DialogContent>
      <DialogActions>
        <Button onClick={close}>Close</Button>
      </DialogActions>
    </Dialog>
  );
}

/** One view, whose name is changed when the field is left or by Enter. */
function SavedView({ view, rename, remove }: { view: View; rename: (name: string) => void; remove: () => void }) {
  const [name, setName] = useState(view.name);
  const finish = () => {
    rename(name);
    setName(view.name); // until the new name comes, or for good if it is taken
  };
  return (
    <Box component="form" onSubmit={(event: FormEvent) => { event.preventDefault(); finish(); }} sx={{ display: "flex", gap: 2 }}>
      <TextField size="small" label={`Rename ${view.name}`} value={name} onChange={(event) => setName(event.target.value)} onBlur={finish} slotProps={FIELD} sx={{ flex: 1 }} />
      <Button color="error" onClick={remove} aria-label={`Delete ${view.name}`}>
        Delete
      </Button>
    </Box>
  );
}
