import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import TextField from "@mui/material/TextField";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { client, contentOf } from "../api/client";
import { Problem } from "../app/Problem";
import { CopyLine } from "../common/CopyLine";
import type { ShownRun } from "../run/data/findRun";
import { membersOf } from "../run/data/status";
import { FileTable } from "./FileTable";
import { joinedPath, memberAddress, memberCopyCommand, stepsFromRoot } from "./paths";
import { Steps } from "./Steps";
import { UploadFiles } from "./UploadFiles";

interface Properties {
  run: ShownRun;
  rank: number;
  /** The folder that is shown; empty: the one in which programs of the member start. */
  path: string;
  open: (path: string) => void;
  chooseRank: (rank: number) => void;
}

/** The files inside a running member: a person opens folders, and copies files out of it and into it. */
export function MemberFiles({ run, rank, path, open, chooseRank }: Properties) {
  const { namespace, title, uid } = run;
  const found = useQuery({
    queryKey: ["member-files", uid, rank, path],
    queryFn: async ({ signal }) => contentOf(await client.GET("/v1/runs/{namespace}/{name}/member-files", { params: { path: { namespace, name: title }, query: { rank, path } }, signal })),
    retry: false,
    staleTime: 30_000,
    refetchOnWindowFocus: false,
  });
  const page = found.data;
  const checkpoint = run.spec.checkpoint?.path;
  return (
    <>
      {membersOf(run).total > 1 && (
        <TextField size="small" label="Rank" type="number" value={rank} onChange={(event) => chooseRank(Math.max(0, Number(event.target.value) || 0))} sx={{ width: 96, mb: 3 }} />
      )}
      {found.error && <Problem error={found.error} retry={() => void found.refetch()} />}
      {!page && found.isLoading && <Skeleton variant="rectangular" height={160} />}
      {page && (
        <>
          <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", columnGap: 3, rowGap: 2, mb: 2 }}>
            <Steps steps={stepsFromRoot(page.path)} open={open} />
            <Button size="small" onClick={() => void found.refetch()} disabled={found.isFetching}>
              Read again
            </Button>
            {!page.isFile && (
              <Button size="small" variant="outlined" component="a" href={memberAddress(run, rank, page.path)} download>
                Download as tar
              </Button>
            )}
          </Box>
          {!page.isFile && <UploadFiles names={new Set(page.items.map(({ name }) => name))} addressOf={(name) => memberAddress(run, rank, joinedPath(page.path, name))} />}
          {page.items.length ? (
            <FileTable folder={page.isFile ? page.path.split("/").slice(0, -1).join("/") || "/" : page.path} items={page.items} open={open} addressOf={(of) => memberAddress(run, rank, of)} />
          ) : (
            <Typography color="textSecondary">This folder is empty.</Typography>
          )}
          <Typography color="textSecondary" sx={{ my: 2, overflowWrap: "anywhere" }}>
            {page.hasMore && "The folder has more entries, which are not listed. "}
            {page.node && `Read on ${page.node}. `}
            These files go with the member{checkpoint && `; those in ${checkpoint} and on volumes stay`}. In a terminal:
          </Typography>
          <CopyLine text={memberCopyCommand(run, rank, page.path)} />
        </>
      )}
    </>
  );
}
