import { useAddressed } from "../sidepanel/useAddressed";
import { BesideButton } from "../sidepanel/BesideButton";
import { SweepList } from "./SweepList";
import { SweepPage } from "./SweepPage";

/** The list of sweeps, one sweep, or both beside each other, as the address says. */
export function SweepsPage() {
  const { item, isAlone } = useAddressed("/sweeps");
  if (!item || !isAlone) return <SweepList opened={item} />;
  return (
    <SweepPage key={`${item.namespace}/${item.name}`} {...item}>
      <BesideButton list="/sweeps" item={item} many="Sweeps" />
    </SweepPage>
  );
}
