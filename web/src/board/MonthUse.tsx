import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import { hours, share } from "../usage/usage";
import { monthInWords, type MonthUsage } from "./board";
import { useBoardUsage } from "./useBoardUsage";

/** How many GPU-hours the last month had, by type and by team. Nothing if the server keeps no history. */
export function MonthUse() {
  const { data: usage, error, refetch } = useBoardUsage();
  if (usage === null) return null;
  return (
    <Box component="section" aria-label="The last 30 days" sx={{ mb: 6 }}>
      <Typography component="h2" sx={{ fontSize: 24, fontWeight: 600 }}>
        The last 30 days
      </Typography>
      {!usage &&
        (error ? (
          <Problem error={error} retry={() => void refetch()} />
        ) : (
          <Skeleton variant="rectangular" height={120} />
        ))}
      {usage && <Typography sx={{ fontSize: 18, mb: 3 }}>{monthInWords(usage)}</Typography>}
      {usage && usage.gpuSeconds > 0 && (
        <Box
          sx={{
            display: "grid",
            gap: 6,
            gridTemplateColumns: "repeat(auto-fit, minmax(min(280px, 100%), 1fr))",
          }}
        >
          <Uses title="By type" uses={usage.types} all={usage.gpuSeconds} left={0} />
          <Uses title="By team" uses={usage.teams} all={usage.gpuSeconds} left={usage.teamCount - usage.teams.length} />
        </Box>
      )}
    </Box>
  );
}

interface Properties {
  title: string;
  uses: MonthUsage["types"];
  /** GPU-seconds of all. */
  all: number;
  /** Number of those that are not named. */
  left: number;
}

function Uses({ title, uses, all, left }: Properties) {
  return (
    <Box>
      <Typography component="h3" sx={{ fontSize: 16, fontWeight: 600, mb: 1 }}>
        {title}
      </Typography>
      <Box component="ul" aria-label={`GPU-hours, ${title.toLowerCase()}`} sx={{ listStyle: "none", m: 0, p: 0 }}>
        {uses.map(({ name, gpuSeconds }) => (
          <Box component="li" key={name} sx={{ py: 1, fontSize: 16 }}>
            <Box sx={{ display: "flex", flexWrap: "wrap", columnGap: 3 }}>
              <Box sx={{ flex: "1 1 auto", minWidth: 0, overflowWrap: "anywhere" }}>{name || "type not known"}</Box>
              <Box sx={{ color: "text.secondary" }}>
                {hours(gpuSeconds)} GPU-hours, {share(gpuSeconds, all)}
              </Box>
            </Box>
            <Box aria-hidden sx={{ height: 8, borderRadius: "2px", bgcolor: "action.hover" }}>
              <Box
                sx={{
                  height: 8,
                  borderRadius: "2px",
                  bgcolor: "primary.main",
                  width: `max(2px, ${(100 * gpuSeconds) / all}%)`,
                }}
              />
            </Box>
          </Box>
        ))}
      </Box>
      {left > 0 && (
        <Typography color="textSecondary">
          {left === 1 ? "and 1 more team" : `and ${left.toLocaleString()} more teams`}
        </Typography>
      )}
    </Box>
  );
}
