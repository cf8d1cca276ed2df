import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import LinearProgress from "@mui/material/LinearProgress";
import Typography from "@mui/material/Typography";
import { useRef, useState } from "react";
import { bytes } from "../words/amounts";
import { chosenFolder, droppedFolder } from "./folder";
import { useUpload } from "./useUpload";

interface Properties {
  /** Digest of the code that the run gets; empty for none. */
  digest: string;
  namespace: string;
  change: (digest: string) => void;
}

/** A place for a folder: it is packed as `kaji run --code` does it, and uploaded. */
export function CodeDrop({ digest, namespace, change }: Properties) {
  const [isOver, setIsOver] = useState(false);
  const [words, setWords] = useState<{ digest: string; text: string } | null>(null);
  const chooser = useRef<HTMLInputElement>(null);
  const { state, fault, start, cancel } = useUpload(namespace, ({ digest, name, files, bytes: size }) => {
    setWords({ digest, text: `${name}, ${files} ${files === 1 ? "file" : "files"}, ${bytes(size)}` });
    change(digest);
  });
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
              ? `Code: ${words?.digest === digest ? words.text : digest.slice(0, 19)}. All members start in it.`
              : "Code: drop your program's folder here, without data. Files that begin with #! are executable; links are not uploaded."}
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
