import Skeleton from "@mui/material/Skeleton";
import { PartBoundary } from "../app/Broken";
import { later } from "../app/parts";
import { useAddressed } from "../sidepanel/useAddressed";
import { RunList } from "./RunList";

const WholeRun = later(async () => (await import("../run/overview/WholeRun")).WholeRun);

/** The list of runs, one run, or both beside each other, as the address says. */
export function RunsPage() {
  const { item, isAlone } = useAddressed("/runs");
  if (!item || !isAlone) return <RunList opened={item} />;
  return (
    <PartBoundary key={`${item.namespace}/${item.name}`} fallback={<Skeleton variant="rectangular" height={160} />}>
      <WholeRun run={item} />
    </PartBoundary>
  );
}
