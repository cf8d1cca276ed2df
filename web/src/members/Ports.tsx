import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import type { Member } from "../api/client";
import type { ShownRun } from "../run/data/findRun";
import { lineOf } from "../words/commands";
import { CopyLine } from "../common/CopyLine";
import { Part } from "../common/Part";
import { addressOf, listening, programOf } from "./ports";

/** Number of members whose ports are shown. */
const MOST = 16;

/** Where the members of a run listen at the ports that it names: the addresses are inside the cluster, the server shows their pages to a browser, and a command reaches them from elsewhere. */
export function Ports({ run, members }: { run: Pick<ShownRun, "namespace" | "name" | "spec" | "programs">; members: readonly Member[] }) {
  const ports = run.spec.ports ?? [];
  const found = listening(members);
  if (!ports.length || !found.length) return null;
  const canOpen = !!run.programs?.length;
  return (
    <Box sx={{ maxWidth: 640, mt: 4 }}>
      <Part title="Ports">
        {found.slice(0, MOST).flatMap((member) =>
          ports.map((port) => (
            <li key={`${member.rank} ${port}`}>
              {found.length > 1 && `Rank ${member.rank}: `}
              {addressOf(member.address ?? "", port)}
              {canOpen && (
                <Button size="small" href={programOf(run, port, member.rank)} target="_blank" rel="noopener" aria-label={`Open port ${port} of rank ${member.rank}`} sx={{ ml: 2 }}>
                  Open
                </Button>
              )}
            </li>
          )),
        )}
        {found.length > MOST && <li>and those of {found.length - MOST} more members.</li>}
      </Part>
      <CopyLine text={lineOf("port-forward", { "-N": run.namespace }, [run.name, ...ports.map(String)])} />
    </Box>
  );
}
