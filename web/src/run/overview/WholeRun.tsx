import { useNavigate } from "react-router";
import type { Item } from "../../sidepanel/address";
import { BesideButton } from "../../sidepanel/BesideButton";
import { RunPage } from "../RunPage";

/** A run as a page of its own. */
export function WholeRun({ run }: { run: Item }) {
  const navigate = useNavigate();
  return (
    <RunPage {...run} leave={() => void navigate("/runs")}>
      <BesideButton list="/runs" item={run} many="Runs" />
    </RunPage>
  );
}
