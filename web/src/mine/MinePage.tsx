import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { Channels } from "./channels/Channels";
import { IdleQuestions } from "./idle/IdleQuestions";
import { Me } from "./Me";
import { Tokens } from "./tokens/Tokens";

/** The page about the signed-in person: identity and rights, open questions, channels of messages, and tokens for robots. */
export function MinePage() {
  return (
    <>
      <Typography variant="h1" sx={{ mb: 4 }}>
        Mine
      </Typography>
      <Box sx={{ display: "grid", gap: 8, gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: "minmax(0, 3fr) minmax(0, 2fr)" } }}>
        <Box sx={{ display: "grid", gap: 8, gridTemplateColumns: "minmax(0, 1fr)", alignContent: "start" }}>
          <IdleQuestions />
          <Channels />
          <Tokens />
        </Box>
        <Me />
      </Box>
    </>
  );
}
