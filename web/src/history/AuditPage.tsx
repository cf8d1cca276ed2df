import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo } from "react";
import { useView } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { OwnerChooser } from "../choices/OwnerChooser";
import { PastTabs } from "../choices/PastTabs";
import { SpanChooser } from "../choices/SpanChooser";
import { TeamChooser } from "../choices/TeamChooser";
import { useTeams } from "../choices/useTeams";
import { CopyLine } from "../common/CopyLine";
import { More } from "../common/More";
import { SettledField } from "../common/SettledField";
import { Since } from "../words/times/Since";
import { AuditTable } from "./AuditTable";
import { auditCommandOf, auditFilterOf, auditParametersOf, OUTCOMES, scopeInWords, type Outcome } from "./audit";
import { useAudit } from "./useAudit";

/** Who changed what, when and from where, and which rule refused it; the newest first. */
export function AuditPage() {
  const [filter, change] = useView(auditFilterOf, auditParametersOf);
  const trail = useAudit(filter);
  const hasTeams = useTeams().length > 0;
  const entries = useMemo(() => trail.data?.pages.flatMap(({ items }) => items) ?? [], [trail.data]);
  const namespaces = trail.data?.pages[0]?.namespaces ?? null;
  return (
    <>
      <PastTabs />
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Audit trail
        </Typography>
        <Since currentAt={trail.dataUpdatedAt} error={trail.error} />
        <ToggleButtonGroup
          size="small"
          exclusive
          value={filter.outcome}
          onChange={(_, outcome: Outcome | null) => outcome !== null && change({ outcome })}
          aria-label="Outcome"
        >
          <ToggleButton value="">Any outcome</ToggleButton>
          {OUTCOMES.map((outcome) => (
            <ToggleButton key={outcome} value={outcome}>
              {outcome.charAt(0).toUpperCase() + outcome.slice(1)}
            </ToggleButton>
          ))}
        </ToggleButtonGroup>
        <OwnerChooser owner={filter.actor} choose={(actor) => change({ actor })} label="Whose changes" />
        <SettledField
          label="Object"
          placeholder="run bert"
          value={filter.object}
          settle={(object) => change({ object })}
          slotProps={{ htmlInput: { maxLength: 300, autoComplete: "off" } }}
          sx={{ width: 160 }}
        />
        <TeamChooser team={filter.team} choose={(team) => change({ team })} />
        <SpanChooser span={filter.span} choose={(span) => change({ span })} withAll />
      </Box>
      {trail.error && !trail.data && <Problem error={trail.error} retry={() => void trail.refetch()} />}
      {!trail.data && !trail.error && <Skeleton variant="rectangular" height={320} />}
      {trail.data && (
        <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
          <Typography color="textSecondary" sx={{ flex: "1 1 320px" }}>
            {scopeInWords(namespaces, filter.team, hasTeams)}
          </Typography>
          <Box sx={{ flex: "1 1 320px", minWidth: 0 }}>
            <CopyLine text={auditCommandOf(filter, Date.now())} />
          </Box>
        </Box>
      )}
      {trail.data && !entries.length && (namespaces === null || namespaces.length > 0) && (
        <Typography>No change fits. People and objects are found by their whole name, such as bert or run bert.</Typography>
      )}
      {entries.length > 0 && (
        <>
          <AuditTable entries={entries} />
          <More hasMore={trail.hasNextPage} isLoading={trail.isFetchingNextPage} load={() => void trail.fetchNextPage()} />
        </>
      )}
    </>
  );
}
