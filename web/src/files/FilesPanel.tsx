import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import LinearProgress from "@mui/material/LinearProgress";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import type { ShownRun } from "../run/data/findRun";
import { CopyLine } from "../common/CopyLine";
import { More } from "../common/More";
import { FileTable } from "./FileTable";
import { MemberFiles } from "./MemberFiles";
import { Steps } from "./Steps";
import { addressOf, copyCommand, returnCommand, stepsOf } from "./paths";
import { useFiles } from "./useFiles";

interface Properties {
  run: ShownRun;
  /** The folder that is shown, relative to the checkpoint folder, or in the member. */
  path: string;
  open: (path: string) => void;
}

interface PanelProperties extends Properties {
  /** The rank of the member whose files are shown; null: those of the checkpoint. */
  inside: number | null;
  /** Show the files of a member, or those of the checkpoint. */
  enter: (rank: number | null) => void;
}

/** The files of the run's checkpoint folder, of a running or an ended run, and those inside of a running member. */
export function FilesPanel({ run, path, open, inside, enter }: PanelProperties) {
  const hasCheckpoint = !!run.spec.checkpoint?.path;
  const isInside = !run.isRemoved && (inside !== null || !hasCheckpoint);
  return (
    <>
      {hasCheckpoint && !run.isRemoved && (
        <ToggleButtonGroup exclusive size="small" value={isInside ? "member" : "checkpoint"} onChange={(_, next: string | null) => next && enter(next === "member" ? 0 : null)} aria-label="Files of" sx={{ mb: 3, mr: 3 }}>
          <ToggleButton value="checkpoint">Checkpoint</ToggleButton>
          <ToggleButton value="member">A running member</ToggleButton>
        </ToggleButtonGroup>
      )}
      {isInside ? <MemberFiles key={`${run.uid} ${inside}`} run={run} rank={inside ?? 0} path={path} open={open} chooseRank={enter} /> : <CheckpointFiles run={run} path={path} open={open} />}
    </>
  );
}

function CheckpointFiles({ run, path, open }: Properties) {
  if (run.isRemoved)
    return (
      <>
        <Typography sx={{ overflowWrap: "anywhere", mb: 2 }}>
          All members shared {run.spec.checkpoint?.path}. Only a run opens a checkpoint folder, and this one was removed. A new run of its name in this team has the folder, unless it was
          deleted with the run. This one holds it open for an hour:
        </Typography>
        <CopyLine text={returnCommand(run)} wraps />
      </>
    );
  return <Folder key={run.uid} run={run} path={path} open={open} />;
}

function Folder({ run, path, open }: Properties) {
  const files = useFiles(run, path);
  const { page, items } = files;
  if (files.error && !page) return <Problem error={files.error} retry={files.refresh} />;
  if (!page)
    return (
      <Box role="status" sx={{ maxWidth: 560 }}>
        <Typography>Opening the folder … The first look takes about as long as a container needs to start.</Typography>
        <Typography color="textSecondary" sx={{ mb: 2, overflowWrap: "anywhere" }}>
          {files.waitsFor}
        </Typography>
        <LinearProgress aria-label="Opening the folder" />
      </Box>
    );
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 3, mb: 2 }}>
        <Steps steps={stepsOf(page.folder, page.path)} open={open} />
        <Button size="small" onClick={files.refresh} disabled={files.isLoading}>
          Read again
        </Button>
        {!page.isFile && (
          <Button size="small" variant="outlined" component="a" href={addressOf(run, "archive", page.path)} download>
            Download as tar
          </Button>
        )}
      </Box>
      {files.error && <Problem error={files.error} retry={files.refresh} />}
      {items.length ? (
        <FileTable folder={page.isFile ? page.path.split("/").slice(0, -1).join("/") : page.path} items={items} open={open} addressOf={(of) => addressOf(run, "content", of)} />
      ) : (
        <Typography color="textSecondary">This folder is empty.</Typography>
      )}
      <More hasMore={files.hasMore} isLoading={files.isLoading} load={files.loadMore} />
      <Typography color="textSecondary" sx={{ mb: 2 }}>
        {page.count === 1 ? "1 entry" : `${page.count} entries`}
        {page.node && `, read on ${page.node}`}. In a terminal:
      </Typography>
      <CopyLine text={copyCommand(run, page.folder, page.path)} />
    </>
  );
}
