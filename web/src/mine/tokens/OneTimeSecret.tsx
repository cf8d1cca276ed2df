import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import { CopyLine } from "../../common/CopyLine";

interface Properties {
  /** A label that says what the secret is, and that it is shown only once. */
  words: string;
  secret: string;
  close: () => void;
}

/** A secret that the server shows only once, with a button that copies it. It disappears when it is closed, or with the page. */
export function OneTimeSecret({ words, secret, close }: Properties) {
  return (
    <Alert severity="success" variant="outlined" onClose={close} sx={{ my: 3, "& .MuiAlert-message": { flex: 1, minWidth: 0 } }}>
      {words}
      <Box sx={{ mt: 2 }}>
        <CopyLine text={secret} wraps />
      </Box>
    </Alert>
  );
}
