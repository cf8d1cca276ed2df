import Button from "@mui/material/Button";
import { Link, useNavigate, useSearchParams } from "react-router";
import { backBeside } from "../beside/useBeside";
import { useOpening } from "../beside/useOpening";
import { RunPage } from "./RunPage";

/** A run as a page of its own. */
export function WholeRun({ namespace, name }: { namespace: string; name: string }) {
  const { isWide, choose } = useOpening("/runs");
  const [parameters] = useSearchParams();
  const navigate = useNavigate();
  return (
    <RunPage namespace={namespace} name={name} leave={() => void navigate("/runs")}>
      {isWide && (
        <Button
          size="small"
          component={Link}
          to={backBeside("/runs", { namespace, name }, parameters.get("tab"))}
          title="Runs open beside the list from now on"
          onClick={() => choose(true)}
        >
          Beside the list
        </Button>
      )}
    </RunPage>
  );
}
