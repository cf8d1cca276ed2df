import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMemo } from "react";
import { useView } from "../address/useAddress";
import type { Phase } from "../api/client";
import { Problem } from "../app/Problem";
import { StartButton } from "../runs/StartButton";
import { StateMark } from "../states/StateMark";
import { FINAL } from "../states/states";
import { OwnerChooser } from "../choices/OwnerChooser";
import { PastTabs } from "../choices/PastTabs";
import { SpanChooser } from "../choices/SpanChooser";
import { TeamChooser } from "../choices/TeamChooser";
import { ExportMenu } from "../table/ExportMenu";
import { ColumnChoice } from "../table/columns/ColumnChoice";
import { useColumns } from "../table/columns/useColumns";
import { ViewMenu } from "../views/ViewMenu";
import { CopyLine } from "../common/CopyLine";
import { More } from "../common/More";
import { SettledField } from "../common/SettledField";
import { Since } from "../words/times/Since";
import { VirtualTable } from "../common/VirtualTable";
import { COLUMNS } from "./columns";
import { addressOf, commandOf, csvOf, filterOf, parametersOf } from "./filter";
import { useHistory } from "./useHistory";

/** Runs that have ended, also removed ones. The server searches and sends them page by page. */
export function HistoryPage() {
  const [filter, change] = useView(filterOf, parametersOf);
  const history = useHistory(filter);
  const [columns, choose] = useColumns("history", COLUMNS);
  const runs = useMemo(() => history.data?.pages.flatMap(({ items }) => items) ?? [], [history.data]);
  return (
    <>
      <PastTabs />
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Ended runs
        </Typography>
        <Since currentAt={history.dataUpdatedAt} error={history.error} />
        <SettledField
          label="Name begins with"
          value={filter.name}
          settle={(name) => change({ name })}
          slotProps={{ htmlInput: { maxLength: 253, autoComplete: "off" } }}
          sx={{ width: 200 }}
        />
        <SettledField
          label="Words in labels, note …"
          value={filter.text}
          settle={(text) => change({ text })}
          slotProps={{ htmlInput: { maxLength: 1024, autoComplete: "off", dir: "auto" } }}
          sx={{ width: 200 }}
        />
        <OwnerChooser owner={filter.owner} choose={(owner) => change({ owner })} />
        <TeamChooser team={filter.team} choose={(team) => change({ team })} />
        <SpanChooser span={filter.span} choose={(span) => change({ span })} label="Created" withAll />
      </Box>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Phases chosen={filter.phases} choose={(phases) => change({ phases })} />
        <Box sx={{ flex: "1 1 320px", minWidth: 0 }}>
          <CopyLine text={commandOf(filter, Date.now())} />
        </Box>
        <ViewMenu table="history" parameters={parametersOf(filter)} />
        <ExportMenu name="ended-runs" rows={runs.length} missing={history.hasNextPage ? "The file has the rows that are loaded." : ""} csv={() => csvOf(runs)} />
        <ColumnChoice columns={COLUMNS} chosen={columns} choose={choose} />
      </Box>
      {history.error && !history.data && <Problem error={history.error} retry={() => void history.refetch()} />}
      {!history.data && !history.error && <Skeleton variant="rectangular" height={320} />}
      {history.data && !runs.length && !history.hasNextPage && <Nothing isFiltered={parametersOf(filter).size > 0} />}
      {(runs.length > 0 || history.hasNextPage) && (
        <>
          {runs.length ? (
            <VirtualTable label="Ended runs" columns={columns} items={runs} minWidth={1040} keyOf={({ uid }) => uid} addressOf={addressOf} opensOnClick />
          ) : (
            <Typography color="textSecondary">No newer run fits; older ones are searched.</Typography>
          )}
          <More
            hasMore={history.hasNextPage}
            isLoading={history.isFetchingNextPage}
            load={() => void history.fetchNextPage()}
          />
        </>
      )}
    </>
  );
}

function Phases({ chosen, choose }: { chosen: Phase[]; choose: (phases: Phase[]) => void }) {
  return (
    <ToggleButtonGroup
      size="small"
      value={chosen}
      onChange={(_, phases: Phase[]) => choose(phases)}
      aria-label="States"
      sx={{ flexWrap: "wrap" }}
    >
      {[...FINAL].map((phase) => (
        <ToggleButton key={phase} value={phase}>
          <StateMark phase={phase} />
        </ToggleButton>
      ))}
    </ToggleButtonGroup>
  );
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered)
    return (
      <Typography color="textSecondary">
        No ended run fits. Names are found by their beginning, people by their whole name.
      </Typography>
    );
  return (
    <Box sx={{ maxWidth: 640 }}>
      <Typography gutterBottom>No run has ended yet. Runs come here when they end, and stay when they are removed.</Typography>
      <StartButton />
    </Box>
  );
}
