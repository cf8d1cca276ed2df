import IconButton from "@mui/material/IconButton";
import Menu from "@mui/material/Menu";
import MenuItem from "@mui/material/MenuItem";
import { useState } from "react";
import { chooseColours, COLOURS, useChosenColours, type Colours } from "./colours";

const WORDS: Record<Colours, string> = { system: "As the system", light: "Light", dark: "Dark" };

/** The button that chooses light or dark colours. */
export function ColourChoice() {
  const chosen = useChosenColours();
  const [button, setButton] = useState<HTMLElement | null>(null);
  return (
    <>
      <IconButton size="small" aria-label="Colours" title="Colours: light or dark" aria-haspopup="menu" onClick={({ currentTarget }) => setButton(currentTarget)} sx={{ flex: "none", fontSize: 16, width: 28, height: 28 }}>
        ◐
      </IconButton>
      <Menu anchorEl={button} open={button !== null} onClose={() => setButton(null)}>
        {COLOURS.map((each) => (
          <MenuItem
            key={each}
            role="menuitemradio"
            aria-checked={each === chosen}
            selected={each === chosen}
            onClick={() => {
              chooseColours(each);
              setButton(null);
            }}
          >
            {WORDS[each]}
          </MenuItem>
        ))}
      </Menu>
    </>
  );
}
