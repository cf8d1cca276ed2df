import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import LinearProgress from "@mui/material/LinearProgress";
import Typography from "@mui/material/Typography";
import { useRef, useState } from "react";
import { chosenFolder, droppedFolder } from "./folder";
import { notesOn, summaryOf } from "./notes";
import { useUpload, type Uploaded } from "./useUpload";

interface Properties {
  /** Digest of the code that the run gets; empty for none. */
  digest: string;
  namespace: string;
  change: (digest: string) => void;
  /** The first word of the command. */
  program: string;
}

/** A place for a folder: it is packed as `kaji run --code` does it, and uploaded. */
export function CodeDrop({ digest, namespace, change, program }: Properties) {
  const [isOver, setIsOver] = useState(false);
  const [uploaded, setUploaded] = useState<Uploaded | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const { state, fault, start, cancel } = useUpload(namespace, (mine) => {
    setUploaded(mine);
    change(mine.digest);
  });
  const here = uploaded?.digest === digest ? uploaded : null;
  return (
    <Box
      component="section"
      aria-label="Code"
      onDragOver={(event) => {
        event.preventDefault();
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        void start(droppedFolder(event.dataTransfer.items));
      }}
      sx={{ border: 1, borderStyle: "dashed", borderColor: isOver ? "primary.main" : "divider", borderRadius: 1, p: 3, display: "grid", gap: 2 }}
    >
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3 }}>
        <Typography sx={{ flex: "1 1 200px", overflowWrap: "anywhere" }} role="status">
          {state
            ? `${state.step} ${Math.floor(state.share * 100)} %`
            : digest
              ? `Code: ${here ? summaryOf(here) : digest.slice(0, 19)}. All members start in it.`
              : "Code: drop your program's folder here, without data."}
        </Typography>
        {state ? (
          <Button size="small" onClick={cancel}>
            Cancel
          </Button>
        ) : (
          <Button size="small" onClick={() => chooser.current?.click()}>
            Choose a folder
          </Button>
        )}
        {digest && !state && (
          <Button size="small" onClick={() => change("")}>
            Leave out
          </Button>
        )}
      </Box>
      {state && <LinearProgress variant="determinate" value={state.share * 100} aria-label={state.step} />}
      {!digest && !state && (
        <Typography color="textSecondary">
          A browser hides links and which files are executable. Links are left out. Files that begin with #!, Linux programs, and files that Git knows as executable become executable. To
          upload the folder as it is: <code>kaji run --code</code>.
        </Typography>
      )}
      {here && !state && notesOn(here, program).map((note) => <Typography key={note}>{note}</Typography>)}
      {fault && <Alert severity="error">{fault}</Alert>}
      <input
        type="file"
        hidden
        aria-hidden
        ref={(input) => {
          chooser.current = input;
          input?.setAttribute("webkitdirectory", "");
        }}
        onChange={(event) => {
          void start(chosenFolder([...(event.target.files ?? [])]));
          event.target.value = "";
        }}
      />
    </Box>
  );
}
