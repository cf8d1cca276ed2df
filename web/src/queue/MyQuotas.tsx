import Box from "@mui/material/Box";
import { Quotas } from "../needs/Quotas";
import { useStartTeams } from "../verbs/useMayChange";

/** Number of namespaces whose quotas are shown: operators may start runs everywhere. */
const MOST = 4;

/** The quotas of the namespaces in which the person starts runs. */
export function MyQuotas() {
  return (
    <Box sx={{ mb: 4, "&:empty": { display: "none" } }}>
      <Quotas namespaces={useStartTeams().slice(0, MOST)} />
    </Box>
  );
}
