import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, contentOf } from "../../api/client";
import { Problem } from "../../app/Problem";
import { LogText } from "../../logs/lines/LogText";
import { useMayChange } from "../../verbs/useMayChange";
import { Age } from "../../words/times/Age";
import type { ShownRun } from "../data/findRun";

const MOST_LETTERS = 2_000;

/** What people wrote about a run. Its text is shown as it is, with links; those who may change the run may write it. */
export function Note({ run }: { run: ShownRun }) {
  const mayWrite = useMayChange()(run.namespace) && !run.isRemoved;
  const [isOpen, setOpen] = useState(false);
  const { note } = run;
  if (isOpen) return <Editor run={run} close={() => setOpen(false)} />;
  if (!note && !mayWrite) return null;
  return (
    <Box component="section" aria-label="Note" sx={{ mt: 3, maxWidth: 960 }}>
      {note && (
        <Typography component="div" dir="auto" sx={{ textAlign: "left", whiteSpace: "pre-wrap", overflowWrap: "anywhere", borderLeft: 3, borderColor: "divider", pl: 3, maxHeight: 240, overflowY: "auto" }} tabIndex={0}>
          {note.text.split("\n").map((line, place) => (
            <div key={place}>{line ? <LogText text={line} needle={null} /> : "\u00a0"}</div>
          ))}
        </Typography>
      )}
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 3, color: "text.secondary" }}>
        {note && (
          <span>
            <bdi>{note.by}</bdi>, <Age time={note.at} />
          </span>
        )}
        {mayWrite && (
          <Button size="small" onClick={() => setOpen(true)} sx={{ ml: -1 }}>
            {note ? "Change the note" : "Write a note"}
          </Button>
        )}
      </Box>
    </Box>
  );
}

function Editor({ run: { namespace, name, note }, close }: { run: ShownRun; close: () => void }) {
  const queries = useQueryClient();
  const [text, setText] = useState(note?.text ?? "");
  // The note that the person began with: a newer one of somebody else is not overwritten.
  const [insteadOf] = useState(note?.at ?? "");
  const writing = useMutation({
    mutationFn: async () => contentOf(await client.POST("/v1/runs/{namespace}/{name}/note", { params: { path: { namespace, name } }, body: { text, insteadOf } })),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: ["run", namespace] });
      close();
    },
  });
  return (
    <Box component="section" aria-label="Note" sx={{ mt: 3, maxWidth: 960 }}>
      {writing.error && <Problem error={writing.error} />}
      <TextField
        fullWidth
        multiline
        autoFocus
        minRows={3}
        maxRows={12}
        label="Note"
        value={text}
        onChange={({ target }) => setText(target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") close();
          else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) writing.mutate();
        }}
        helperText={text.length > MOST_LETTERS ? `${(text.length - MOST_LETTERS).toLocaleString("en")} characters too many` : "Everybody who sees the run sees it, also after the run was removed. Ctrl Enter saves."}
        error={text.length > MOST_LETTERS}
      />
      <Box sx={{ display: "flex", gap: 2, mt: 1 }}>
        <Button size="small" variant="outlined" disabled={writing.isPending || text.length > MOST_LETTERS} onClick={() => writing.mutate()}>
          Save
        </Button>
        <Button size="small" onClick={close}>
          Cancel
        </Button>
      </Box>
    </Box>
  );
}
