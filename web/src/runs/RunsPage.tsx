import Skeleton from "@mui/material/Skeleton";
import { useParams, useSearchParams } from "react-router";
import { PartBoundary } from "../app/Broken";
import { later } from "../app/parts";
import { listBeside } from "../beside/address";
import { useOpening } from "../beside/useOpening";
import { RunList } from "./RunList";

const WholeRun = later(async () => (await import("../run/WholeRun")).WholeRun);

/** The list of runs, one run, or both beside each other, as the address says. On narrow screens a run stands alone. */
export function RunsPage() {
  const { namespace = "", name = "" } = useParams();
  const [parameters] = useSearchParams();
  const { isWide } = useOpening("/runs");
  if (!name || (isWide && listBeside(parameters))) return <RunList opened={name ? { namespace, name } : null} />;
  return (
    <PartBoundary key={`${namespace}/${name}`} fallback={<Skeleton variant="rectangular" height={160} />}>
      <WholeRun namespace={namespace} name={name} />
    </PartBoundary>
  );
}
