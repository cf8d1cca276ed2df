import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { Link, NavLink, Outlet, useLocation } from "react-router";
import { signOut, whoAmI } from "../api/signIn";
import { SearchButton } from "../search/SearchButton";
import { KeysDialog } from "./KeysDialog";

const PAGES: { to: string; word: string }[] = [
  { to: "/runs", word: "Runs" },
  { to: "/start", word: "Start" },
  { to: "/queue", word: "Queue" },
  { to: "/cluster", word: "Cluster" },
  { to: "/board", word: "Board" },
  { to: "/sweeps", word: "Sweeps" },
  { to: "/networks", word: "Networks" },
  { to: "/usage", word: "Usage" },
];

/** Pages that belong to another one of the rail. */
const WITHIN: Readonly<Record<string, string>> = { "/history": "/usage", "/audit": "/usage" };

/** The frame of all pages: the rail with the pages, and who is signed in. */
export function Frame() {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const { pathname } = useLocation();
  return (
    <Box sx={{ minHeight: "100vh", display: "flex", flexDirection: "column" }}>
      <Box
        component="header"
        sx={{
          display: "flex",
          alignItems: "center",
          flexWrap: { xs: "wrap", sm: "nowrap" },
          columnGap: { xs: 3, sm: 6 },
          px: 4,
          pt: { xs: 2, sm: 0 },
          minHeight: 48,
          borderBottom: 1,
          borderColor: "divider",
          bgcolor: "background.paper",
        }}
      >
        <Typography component="span" sx={{ fontWeight: 600, mr: { xs: "auto", sm: 0 } }}>
          Kajitori
        </Typography>
        <Box
          component="nav"
          aria-label="Pages"
          sx={{
            display: "flex",
            // On a phone all pages are in sight, in two lines. Their links are large enough for a thumb.
            flexWrap: { xs: "wrap", sm: "nowrap" },
            columnGap: 4,
            flex: { xs: "1 0 100%", sm: 1 },
            order: { xs: 1, sm: 0 },
            pb: { xs: 1, sm: 0 },
            minWidth: 0,
            overflowX: "auto",
            "& a": { py: { xs: 1.5, sm: 0 } },
          }}
        >
          {PAGES.map(({ to, word }) => (
            <NavLink key={to} to={to} style={({ isActive }) => ({ color: "inherit", fontWeight: isActive || WITHIN[pathname] === to ? 600 : 400 })}>
              {word}
            </NavLink>
          ))}
        </Box>
        <SearchButton pages={[...PAGES, { to: "/mine", word: "Mine" }]} />
        <Typography component={Link} to="/mine" color="textSecondary" noWrap sx={{ maxWidth: { xs: "20vw", sm: "40vw" } }} title={`Mine: ${who.data?.user}`}>
          {who.data?.user}
        </Typography>
        <Button size="small" onClick={() => void signOut()} sx={{ flex: "none" }}>
          Sign out
        </Button>
      </Box>
      <Box component="main" sx={{ flex: 1, width: "100%", maxWidth: 1600, mx: "auto", p: 4, minWidth: 0 }}>
        <Outlet />
      </Box>
      <KeysDialog />
    </Box>
  );
}
