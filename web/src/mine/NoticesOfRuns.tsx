import Alert from "@mui/material/Alert";
import Button from "@mui/material/Button";
import FormControlLabel from "@mui/material/FormControlLabel";
import Switch from "@mui/material/Switch";
import { Link } from "react-router";
import { serverNow } from "../api/clock";
import { withAll, withoutRun } from "../notices/notices";
import { usePermission } from "../notices/usePermission";
import { useWanted } from "../notices/useWanted";
import { pageOf } from "../run/overview/AfterRuns";
import { Faint, PlainList } from "../common/Part";
import { Section } from "./Section";

/** The runs of which this browser tells ends and restarts. */
export function NoticesOfRuns() {
  const { wanted, change } = useWanted();
  const { refusal, ask } = usePermission();
  const runs = Object.entries(wanted.runs);
  const choose = (all: boolean) => change((before) => withAll(before, all, serverNow()));
  return (
    <Section title="Notices of this browser">
      <FormControlLabel
        control={<Switch size="small" checked={wanted.all} onChange={(_, checked) => (checked ? ask(() => choose(true)) : choose(false))} />}
        label="Tell me when one of my runs ends or restarts"
        sx={{ ml: -1 }}
      />
      <Faint>While a page of Kajitori is open in this browser. Messages (above) arrive without it.</Faint>
      {refusal && (
        <Alert severity="warning" variant="outlined" role="status" sx={{ mt: 2 }}>
          {refusal}
        </Alert>
      )}
      {runs.length > 0 && (
        <PlainList>
          {runs.map(([uid, { namespace, name }]) => (
            <li key={uid}>
              <Link to={pageOf({ namespace, name })}>
                <bdi>{name}</bdi>
              </Link>{" "}
              in {namespace}
              <Button size="small" onClick={() => change((before) => withoutRun(before, uid))} sx={{ ml: 2 }} aria-label={`Do not tell me the end of ${name}`}>
                Do not tell me
              </Button>
            </li>
          ))}
        </PlainList>
      )}
    </Section>
  );
}
