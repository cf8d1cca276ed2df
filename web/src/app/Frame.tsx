import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import { Link, Outlet } from "react-router";
import { signOut, whoAmI } from "../api/signIn";
import { useMyTeams } from "../runs/filter/useMyTeams";
import { SearchButton } from "../search/SearchButton";
import { useCopiedTimes } from "../words/times/useCopiedTimes";
import { ColourChoice } from "./ColourChoice";
import { KeysDialog } from "./KeysDialog";
import { later } from "./parts";
import { PAGES, Rail } from "./Rail";

const RAIL_PX = 124;

/** Nobody sees it before a run ends, so it comes after the page. */
const Notices = later(async () => (await import("../notices/Notices")).Notices);

/** The frame of all pages: the top bar with cluster, team, search and person, and the rail with the pages. */
export function Frame() {
  useCopiedTimes();
  return (
    <Box
      sx={{
        minHeight: "100vh",
        display: "grid",
        alignContent: "start",
        gridTemplateColumns: { xs: "minmax(0, 1fr)", md: `${RAIL_PX}px minmax(0, 1fr)` },
        gridTemplateRows: { xs: "auto auto 1fr", md: "auto 1fr" },
      }}
    >
      <TopBar />
      <Rail />
      <Box component="main" sx={{ width: "100%", maxWidth: 1600, mx: "auto", p: 4, minWidth: 0 }}>
        <Outlet />
      </Box>
      <KeysDialog />
      <Suspense>
        <Notices />
      </Suspense>
    </Box>
  );
}

const PLACE = { overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap", minWidth: 0 } as const;

function TopBar() {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI });
  const teams = useMyTeams();
  return (
    <Box
      component="header"
      sx={{ gridColumn: "1 / -1", display: "flex", flexWrap: { xs: "wrap", md: "nowrap" }, alignItems: "center", columnGap: { xs: 2, sm: 4 }, px: 4, minHeight: 48, borderBottom: { md: 1 }, borderColor: { md: "divider" }, bgcolor: "background.paper" }}
    >
      <Typography component="span" sx={{ fontWeight: 600 }}>
        Kajitori
      </Typography>
      <Box sx={{ ...PLACE, flex: "0 1 auto", display: { xs: "none", sm: "block" }, color: "text.secondary" }} title="The cluster whose server this is">
        {window.location.host}
      </Box>
      {!!teams?.length && (
        <Box sx={{ ...PLACE, flex: "0 1 auto", display: { xs: "none", md: "block" }, color: "text.secondary" }} title={`Your teams: ${teams.join(", ")}`}>
          {teams.length === 1 ? "Team" : "Teams"} {teams.join(", ")}
        </Box>
      )}
      <Box sx={{ flex: 1 }} />
      <SearchButton pages={[...PAGES, { to: "/mine", word: "Mine" }, { to: "/policy", word: "Policy" }, { to: "/mine", word: "Secrets and volumes" }]} />
      <Typography component={Link} to="/mine" noWrap dir="auto" sx={{ color: "text.primary", maxWidth: { xs: "60vw", sm: "30vw" } }} title={`Mine: ${who.data?.user}`}>
        {who.data?.user}
      </Typography>
      <ColourChoice />
      <Button size="small" onClick={() => void signOut()} sx={{ flex: "none" }}>
        Sign out
      </Button>
    </Box>
  );
}
