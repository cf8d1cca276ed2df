import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import { SettledField } from "../common/SettledField";

const ME = "@me";

interface Properties {
  owner: string;
  choose: (owner: string) => void;
  /** Label of the choice. */
  label?: string;
}

/** The choice of whose runs: my own, everybody's, or those of one person. */
export function OwnerChooser({ owner, choose, label = "Whose runs" }: Properties) {
  return (
    <>
      <ToggleButtonGroup
        size="small"
        exclusive
        value={owner === ME ? ME : owner ? null : ""}
        onChange={(_, chosen: string | null) => chosen !== null && choose(chosen)}
        aria-label={label}
      >
        <ToggleButton value={ME}>Mine</ToggleButton>
        <ToggleButton value="">All</ToggleButton>
      </ToggleButtonGroup>
      <SettledField
        label="Person"
        value={owner === ME ? "" : owner}
        settle={(typed) => choose(typed)}
        slotProps={{ htmlInput: { maxLength: 1024, autoComplete: "off" } }}
        sx={{ width: 160 }}
      />
    </>
  );
}
