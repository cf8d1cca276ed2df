import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import LinearProgress from "@mui/material/LinearProgress";
import Link from "@mui/material/Link";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import type { ShownRun } from "../run/data/findRun";
import { CopyLine } from "../common/CopyLine";
import { More } from "../common/More";
import { FileTable } from "./FileTable";
import { addressOf, copyCommand, returnCommand, stepsOf } from "./paths";
import { useFiles } from "./useFiles";

interface Properties {
  run: ShownRun;
  /** The folder that is shown, relative to the checkpoint folder. */
  path: string;
  open: (path: string) => void;
}

/** The files of the run's checkpoint folder, of a running or an ended run. */
export function FilesPanel({ run, path, open }: Properties) {
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
        <Box role="group" aria-label="Folder" sx={{ flex: "1 1 200px", overflowWrap: "anywhere" }}>
          {stepsOf(page.folder, page.path).map(({ name, path: to, isLast }) => (
            <span key={to}>
              {isLast ? (
                <strong>{name}</strong>
              ) : (
                <Link component="button" onClick={() => open(to)} sx={{ font: "inherit", verticalAlign: "baseline" }}>
                  {name}
                </Link>
              )}
              {!isLast && " / "}
            </span>
          ))}
        </Box>
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
        <FileTable run={run} folder={page.isFile ? page.path.split("/").slice(0, -1).join("/") : page.path} items={items} open={open} />
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
