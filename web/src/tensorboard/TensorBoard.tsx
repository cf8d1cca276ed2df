import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useEffect, useRef, useState } from "react";
import type { Run } from "../api/client";
import { CopyLine } from "../common/CopyLine";
import { programOf } from "../members/ports";
import { phaseOf } from "../run/data/status";
import { lineOf } from "../words/commands";
import { NOT_THERE, startBoard, type Board } from "./tensorboard";

/** TensorBoard of a run: started in a member of a running run for as long as the page is open; of an ended run, the command that shows it. */
export function TensorBoard({ run, rank }: { run: Run; rank: number }) {
  const { namespace, name, spec } = run;
  const [folder, setFolder] = useState(spec.tensorboard ?? "");
  const [isOn, setOn] = useState(false);
  const [port, setPort] = useState(0);
  const [why, setWhy] = useState("");
  const board = useRef<Board | null>(null);
  useEffect(() => () => board.current?.close(), []);
  const line = lineOf("tensorboard", { "-N": namespace, "--logdir": folder === spec.tensorboard ? "" : folder, "--rank": rank ? `${rank}` : "" }, [name]);
  const start = () => {
    setWhy("");
    setPort(0);
    setOn(true);
    board.current = startBoard({ namespace, name, rank, folder }, setPort, (reason) => {
      setOn(false);
      setWhy(reason);
    });
  };
  const end = () => {
    board.current?.close();
    setOn(false);
  };
  return (
    <Box component="details" open={isOn || why !== "" || undefined} sx={{ mb: 3, maxWidth: 720 }}>
      <Box component="summary" sx={{ cursor: "pointer", py: 1 }}>
        TensorBoard
      </Box>
      <Box sx={{ display: "grid", gridTemplateColumns: "minmax(0, 1fr)", gap: 3, pt: 2 }}>
        {phaseOf(run) === "Running" ? (
          <>
            <Box sx={{ display: "flex", flexWrap: "wrap", gap: 2 }}>
              <TextField size="small" label="Folder with event files" value={folder} onChange={({ target }) => setFolder(target.value)} disabled={isOn} sx={{ flex: "1 1 240px" }} />
              {isOn ? (
                <>
                  {port > 0 && (
                    <Button variant="contained" size="small" href={programOf(run, port, rank)} target="_blank" rel="noopener">
                      Open
                    </Button>
                  )}
                  <Button variant="outlined" size="small" onClick={end}>
                    End
                  </Button>
                </>
              ) : (
                <Button variant="outlined" size="small" onClick={start} disabled={!folder.startsWith("/")}>
                  Start
                </Button>
              )}
            </Box>
            {isOn && <Typography role="status">{port ? `TensorBoard runs in rank ${rank} until you end it or leave this page.` : "TensorBoard is starting …"}</Typography>}
            {why && (
              <Alert severity="warning" role="alert">
                {why}
              </Alert>
            )}
            {why === NOT_THERE && <CopyLine text={lineOf("exec", { "-N": namespace, "--rank": rank ? `${rank}` : "" }, [name, "python3", "-m", "pip", "install", "tensorboard"])} />}
            <Typography color="textSecondary">It uses the processors and the memory of the member. In a terminal:</Typography>
          </>
        ) : (
          <Typography color="textSecondary">No member runs. This command copies the event files of the checkpoint to your computer, and shows them with the TensorBoard there:</Typography>
        )}
        <CopyLine text={line} />
      </Box>
    </Box>
  );
}
