import Box from "@mui/material/Box";
import Typography from "@mui/material/Typography";
import { Channels } from "./channels/Channels";
import { IdleQuestions } from "./idle/IdleQuestions";
import { Secrets } from "../needs/Secrets";
import { Volumes } from "../needs/Volumes";
import { useStartTeams } from "../verbs/useMayChange";
import { Me } from "./Me";
import { NoticesOfRuns } from "./NoticesOfRuns";
import { Tokens } from "./tokens/Tokens";

/** The page about the signed-in person: identity and rights, open questions, channels of messages, secrets and volumes of runs, and tokens for robots. */
export function MinePage() {
  const teams = useStartTeams();
  return (
    <>
      <Typography variant="h1" sx={{ mb: 4 }}>
        Mine
      </Typography>
      <Box sx={{ display: "grid", gap: 8, gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: "minmax(0, 3fr) minmax(0, 2fr)" } }}>
        <Box sx={{ display: "grid", gap: 8, gridTemplateColumns: "minmax(0, 1fr)", alignContent: "start" }}>
          <IdleQuestions />
          <Channels />
          <NoticesOfRuns />
          {teams.length > 0 && <Secrets teams={teams} />}
          {teams.length > 0 && <Volumes teams={teams} />}
          <Tokens />
        </Box>
        <Me />
      </Box>
    </>
  );
}
