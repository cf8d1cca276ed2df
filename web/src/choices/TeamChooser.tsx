import { useId } from "react";
import { SettledField } from "../common/SettledField";
import { useTeams } from "./useTeams";

/** The choice of one team; empty for all. Teams without present runs are not suggested, and can be typed. */
export function TeamChooser({ team, choose }: { team: string; choose: (team: string) => void }) {
  const list = useId();
  const known = useTeams();
  return (
    <>
      <SettledField
        label="Team"
        value={team}
        settle={choose}
        slotProps={{ htmlInput: { maxLength: 253, autoComplete: "off", list } }}
        sx={{ width: 160 }}
      />
      <datalist id={list}>
        {known.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </>
  );
}
