import Box from "@mui/material/Box";
import { Link, useLocation } from "react-router";
import { useTitle } from "../common/useTitle";

export const PAGES: readonly { to: string; word: string }[] = [
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
const WITHIN: Readonly<Record<string, string>> = { "/history": "/usage", "/audit": "/usage", "/events": "/usage", "/compare": "/runs" };

const OTHERS: Readonly<Record<string, string>> = { "/history": "Ended runs", "/audit": "Audit", "/events": "Events", "/mine": "Mine", "/policy": "Policy", "/compare": "Compare runs" };

/** The links to all pages: a column that stays in sight, or on narrow screens two lines below the top bar. */
export function Rail() {
  const { pathname } = useLocation();
  useTitle(OTHERS[pathname] ?? PAGES.find(({ to }) => pathname === to || pathname.startsWith(`${to}/`))?.word ?? "", "page");
  const isAt = (to: string) => pathname === to || pathname.startsWith(`${to}/`) || WITHIN[pathname] === to;
  return (
    <Box
      component="nav"
      aria-label="Pages"
      sx={{
        display: "flex",
        // Narrow screens: all pages are in sight, and their links are large enough for a thumb.
        flexDirection: { xs: "row", md: "column" },
        flexWrap: { xs: "wrap", md: "nowrap" },
        position: { md: "sticky" },
        top: { md: 0 },
        height: { md: "calc(100vh - 49px)" },
        px: { xs: 2, md: 2 },
        py: { xs: 0, md: 3 },
        gap: { md: 1 },
        borderBottom: { xs: 1, md: 0 },
        borderRight: { md: 1 },
        borderColor: { xs: "divider", md: "divider" },
        bgcolor: "background.paper",
        boxSizing: "border-box",
        "& a": { px: 2, py: 1.5, borderRadius: 1, textDecoration: "none", lineHeight: "20px" },
        "& a:hover": { bgcolor: "action.hover" },
        "& a[aria-current]": { fontWeight: 600, color: "primary.main", bgcolor: { md: "action.selected" }, textDecoration: { xs: "underline", md: "none" } },
      }}
    >
      {PAGES.map(({ to, word }) => (
        <Link key={to} to={to} aria-current={isAt(to) ? "page" : undefined}>
          {word}
        </Link>
      ))}
    </Box>
  );
}
