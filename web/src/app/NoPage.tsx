import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { Link, useLocation } from "react-router";
import { useTitle } from "../common/useTitle";

/** The page for an address that does not exist. */
export function NoPage() {
  const { pathname } = useLocation();
  useTitle("No page", "page");
  return (
    <>
      <Typography variant="h1">There is no page here</Typography>
      <Typography sx={{ my: 4, overflowWrap: "anywhere" }}>
        No page has the address {pathname}. The address may be incomplete, or that of a newer version.
      </Typography>
      <Button component={Link} to="/runs" variant="outlined">
        Show runs
      </Button>
    </>
  );
}
