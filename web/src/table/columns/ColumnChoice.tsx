import Button from "@mui/material/Button";
import Checkbox from "@mui/material/Checkbox";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import { useState } from "react";

interface Properties {
  columns: readonly { name: string; isLink?: boolean }[];
  chosen: readonly { name: string }[];
  choose: (names: readonly string[]) => void;
}

/** A menu in which a person chooses the columns of a table. The column with the link stays. */
export function ColumnChoice({ columns, chosen, choose }: Properties) {
  const [anchor, setAnchor] = useState<HTMLElement | null>(null);
  const names = chosen.map(({ name }) => name);
  const toggle = (name: string) =>
    choose(names.includes(name) ? names.filter((other) => other !== name) : [...names, name]);
  return (
    <>
      <Button size="small" onClick={(event) => setAnchor(event.currentTarget)} aria-haspopup="menu" sx={{ display: { xs: "none", sm: "inline-flex" } }}>
        Columns
      </Button>
      <Menu anchorEl={anchor} open={anchor !== null} onClose={() => setAnchor(null)}>
        {columns.map(({ name, isLink }) => (
          <MenuItem
            key={name}
            dense
            role="menuitemcheckbox"
            aria-checked={names.includes(name)}
            disabled={isLink === true}
            onClick={() => toggle(name)}
          >
            {/* A picture of the item's state. The item is what a person reaches: a control in it would be a second one. */}
            <Checkbox size="small" checked={names.includes(name)} disabled aria-hidden sx={{ p: 1, mr: 2, "&.Mui-disabled": { color: names.includes(name) ? "primary.main" : "text.secondary" } }} />
            {name}
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}
