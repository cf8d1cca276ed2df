import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { providerAddress, signInOf } from "../api/signIn";
import { CopyLine } from "../common/CopyLine";

/** The page for a browser without a session: the ways to sign in. `refusal` says why a link was not accepted, `isLost` that there was a session until now. */
export function SignInPage({ refusal, isLost }: { refusal: string; isLost: boolean }) {
  const found = useQuery({ queryKey: ["sign-in"], queryFn: signInOf }).data;
  const hasProvider = !!found?.issuer;
  return (
    <Box component="main" sx={{ maxWidth: 480, mx: "auto", mt: 24, px: 4 }}>
      <Typography variant="h1" gutterBottom>
        Sign in to Kajitori
      </Typography>
      {refusal && (
        <Typography color="error" role="alert" gutterBottom>
          {refusal}
        </Typography>
      )}
      {isLost && !refusal && (
        <Typography role="alert" gutterBottom>
          Your session has ended. Sign in again and come back here: this page goes on where you were, and the form that starts a run is kept.
        </Typography>
      )}
      {hasProvider && (
        <Button variant="contained" href={providerAddress()} sx={{ my: 4 }}>
          Sign in
        </Button>
      )}
      <Typography gutterBottom>
        {hasProvider ? "Or use" : "Use"} the command line, where you are signed in already. It opens this page as you:
      </Typography>
      <CopyLine text="kaji open" />
    </Box>
  );
}
