import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { Link, useNavigate } from "react-router";
import type { Run } from "../../api/client";
import { Problem } from "../../app/Problem";
import { isFinal, phaseOf } from "../../run/data/status";
import { addressOf } from "../../runs/RunTable";
import { StateMark } from "../../states/StateMark";
import { perform } from "../../verbs/perform";
import { PlainList } from "../../common/Part";

/** The notebooks that I have already: to be opened, or started again with their files. */
export function MyNotebooks({ notebooks }: { notebooks: readonly Run[] }) {
  const navigate = useNavigate();
  const resumption = useMutation({
    mutationFn: (run: Run) => perform("resume", run),
    onSuccess: (_, run) => navigate(addressOf(run)),
  });
  const there = notebooks.filter(({ deleting }) => !deleting);
  if (!there.length) return null;
  return (
    <Box component="section" aria-label="My notebooks">
      <Typography variant="h2" sx={{ mb: 1 }}>
        My notebooks
      </Typography>
      <PlainList>
        {there.map((run) => (
          <Box component="li" key={run.uid} sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 4 }}>
            <Link to={addressOf(run)}>
              <bdi>{run.name}</bdi>
            </Link>
            <StateMark phase={phaseOf(run)} />
            {run.programs?.[0] && (
              <Button size="small" variant="outlined" href={run.programs[0]} target="_blank" rel="noopener" aria-label={`Open ${run.name}`}>
                Open
              </Button>
            )}
            {isFinal(run) && (
              <Button size="small" variant="outlined" disabled={resumption.isPending} onClick={() => resumption.mutate(run)} aria-label={`Start ${run.name} again`}>
                Start again
              </Button>
            )}
          </Box>
        ))}
      </PlainList>
      {resumption.error && <Problem error={resumption.error} />}
    </Box>
  );
}
