import Button from "@mui/material/Button";
import Divider from "@mui/material/Divider";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import { useState } from "react";
import { useShowView, useViews } from "./useViews";
import { ViewsDialog } from "./ViewsDialog";
import type { Table } from "./views";

interface Properties {
  table: Table;
  /** The parameters of the address that shows what is shown now. */
  parameters: URLSearchParams;
}

/** A menu of saved views of a table, which a person names, renames and deletes. */
export function ViewMenu({ table, parameters }: Properties) {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const [isManaging, setIsManaging] = useState(false);
  const [views] = useViews(table);
  const show = useShowView();
  const close = () => setAnchor(null);
  return (
    <>
      <Button size="small" onClick={(event) => setAnchor(event.currentTarget)} aria-haspopup="menu" sx={{ display: { xs: "none", sm: "inline-flex" } }}>
        Views
      </Button>
      <Menu anchorEl={anchor} open={anchor !== null} onClose={close}>
        {views.map((view) => (
          <MenuItem
            key={view.name}
            dense
            selected={view.parameters === `${parameters}`}
            onClick={() => {
              close();
              show(table, view);
            }}
          >
            <bdi>{view.name}</bdi>
          </MenuItem>
        ))}
        {views.length > 0 && <Divider />}
        <MenuItem
          dense
          onClick={() => {
            close();
            setIsManaging(true);
          }}
        >
          {views.length ? "Save, rename, delete …" : "Save this view …"}
        </MenuItem>
      </Menu>
      {isManaging && <ViewsDialog table={table} parameters={`${parameters}`} close={() => setIsManaging(false)} />}
    </>
  );
}
