import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { Channels } from "./channels/Channels";
import { IdleQuestions } from "./idle/IdleQuestions";
import { Me } from "./Me";
import { Tokens } from "./tokens/Tokens";

/** What is mine: who I am, questions to me, where messages reach me, and tokens that act for my teams. */
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
