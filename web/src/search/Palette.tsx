import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Dialog from "@mui/material/Dialog";
import InputBase from "@mui/material/InputBase";
import Snackbar from "@mui/material/Snackbar";
import Typography from "@mui/material/Typography";
import { useState, type KeyboardEvent } from "react";
import { useLocation, useNavigate } from "react-router";
import { LossDialog } from "../verbs/LossDialog";
import { perform } from "../verbs/perform";
import type { Row } from "../runs/data/rows";
import { useAllViews, useShowView } from "../views/useViews";
import { useMayChange } from "../verbs/useMayChange";
import { ends, performEach, summary, type Outcome, type Verb } from "../verbs/verbs";
import { commandsOf, type Command, type Page } from "./commands";
import { useFound, useOpenRun } from "./useFound";

interface Properties {
  pages: readonly Page[];
  isOpen: boolean;
  close: () => void;
}

const LIST = "search-results";

/** The search of all pages. What stops or deletes a run asks first. */
export function Palette({ pages, isOpen, close }: Properties) {
  const [asking, setAsking] = useState<{ verb: Verb; run: Row } | null>(null);
  const [told, setTold] = useState<{ verb: Verb; outcome: Outcome } | null>(null);
  const navigate = useNavigate();
  const showView = useShowView();
  const start = async (verb: Verb, run: Row) => {
    setAsking(null);
    await performEach([run], (each) => perform(verb, each), (outcome) => setTold({ verb, outcome }));
  };
  const choose = ({ act }: Command) => {
    close();
    if ("to" in act) void navigate(act.to);
    else if ("view" in act) showView(act.table, act.view);
    else if (ends(act.verb)) setAsking(act);
    else void start(act.verb, act.run);
  };
  return (
    <>
      <Dialog open={isOpen} onClose={close} aria-label="Search" fullWidth sx={{ "& .MuiDialog-container": { alignItems: "flex-start" } }}>
        {isOpen && <Search pages={pages} choose={choose} />}
      </Dialog>
      {asking && (
        <LossDialog
          verb={asking.verb}
          runs={[asking.run]}
          close={() => setAsking(null)}
          confirm={() => void start(asking.verb, asking.run)}
          {...(asking.verb === "stop" && { kill: () => void start("kill", asking.run) })}
        />
      )}
      <Snackbar open={told !== null} autoHideDuration={6_000} onClose={() => setTold(null)}>
        <Alert severity={told?.outcome.error ? "error" : "success"} role="status" onClose={() => setTold(null)}>
          {told && (told.outcome.error?.message ?? `${told.outcome.run.name}: ${summary(told.verb, [told.outcome])}`)}
        </Alert>
      </Snackbar>
    </>
  );
}

function Search({ pages, choose }: { pages: readonly Page[]; choose: (command: Command) => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const here = useOpenRun(useLocation().pathname);
  const commands = commandsOf(text, pages, useFound(text), here, useMayChange(), useAllViews());
  const chosen = commands[Math.min(at, commands.length - 1)];
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((Math.min(at, commands.length - 1) + step + commands.length) % commands.length || 0);
    else if (event.key === "Enter" && chosen) choose(chosen);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <InputBase
        autoFocus
        fullWidth
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setAt(0);
        }}
        onKeyDown={onKey}
        placeholder="Run, node, person, team, page; or: stop bert"
        slotProps={{
          input: {
            role: "combobox",
            dir: "auto",
            "aria-label": "Search",
            "aria-expanded": true,
            "aria-controls": LIST,
            "aria-activedescendant": chosen && idOf(chosen),
            spellCheck: false,
          },
        }}
        sx={{ px: 4, py: 3, borderBottom: 1, borderColor: "divider" }}
      />
      <Box id={LIST} role="listbox" aria-label="Found" sx={{ overflowY: "auto", minHeight: 240, maxHeight: "60vh", py: 1 }}>
        {commands.map((command, index) => (
          <Box key={command.key} sx={{ display: "contents" }} role="presentation">
            {commands[index - 1]?.group !== command.group && (
              <Typography role="presentation" sx={{ px: 4, pt: 2, fontSize: 12, color: "text.secondary" }}>
                {command.group}
              </Typography>
            )}
            <Option command={command} isChosen={command === chosen} choose={() => choose(command)} />
          </Box>
        ))}
        {!commands.length && (
          <Typography role="option" aria-disabled aria-selected={false} color="textSecondary" sx={{ px: 4, py: 2 }}>
            Nothing has this name.
          </Typography>
        )}
      </Box>
    </>
  );
}

function Option({ command, isChosen, choose }: { command: Command; isChosen: boolean; choose: () => void }) {
  return (
    <Box
      id={idOf(command)}
      role="option"
      aria-selected={isChosen}
      onClick={choose}
      ref={(element: HTMLElement | null) => {
        if (isChosen) element?.scrollIntoView({ block: "nearest" });
      }}
      sx={{ px: 4, py: 1, display: "flex", gap: 3, cursor: "pointer", bgcolor: isChosen ? "action.selected" : "transparent", "&:hover": { bgcolor: "action.hover" } }}
    >
      <Box component="bdi" sx={{ flex: "1 1 auto", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }}>
        {command.words}
      </Box>
      <Box component="span" sx={{ color: "text.secondary", flex: "0 1 auto", overflow: "hidden", textOverflow: "ellipsis", whiteSpace: "nowrap" }}>
        {command.hint}
      </Box>
    </Box>
  );
}

function idOf({ key }: Command): string {
  return `search-${key.replaceAll(" ", "-")}`;
}
