import Box from "@mui/material/Box";
import { NavLink } from "react-router";

const PAGES: readonly (readonly [string, string])[] = [
  ["/usage", "Usage"],
  ["/history", "Ended runs"],
  ["/audit", "Audit trail"],
  ["/events", "Events"],
];

/** The pages about the past. */
export function PastTabs() {
  return (
    <Box
      component="nav"
      aria-label="The past"
      sx={{ display: "flex", gap: 4, mb: 4, borderBottom: 1, borderColor: "divider", "& a": { py: 2, textDecoration: "none" } }}
    >
      {PAGES.map(([to, word]) => (
        <NavLink
          key={to}
          to={to}
          style={({ isActive }) => ({ fontWeight: isActive ? 600 : 400, boxShadow: isActive ? "inset 0 -2px currentColor" : "none" })}
        >
          {word}
        </NavLink>
      ))}
    </Box>
  );
}
