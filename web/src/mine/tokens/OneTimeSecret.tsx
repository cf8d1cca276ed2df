import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import { CopyLine } from "../../words/CopyLine";

interface Properties {
  /** What it is, and that it is shown this once. */
  words: string;
  secret: string;
  close: () => void;
}

/** A secret that the server tells once, with a button that copies it. It goes when it is closed, and with the page. */
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
