import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense } from "react";
import { Link } from "react-router";
import { client, contentOf, type Schemas } from "../../api/client";
import { Problem } from "../../app/Problem";
import { PanelTitle, SidePanel } from "../../sidepanel/SidePanel";
import { Age } from "../../words/times/Age";
import { bytes, cpus } from "../../words/amounts";
import { CopyLine } from "../../common/CopyLine";
import { Faint, Part, PlainList } from "../../common/Part";
import { useTemperatures } from "../useTemperatures";
import { NodeActions } from "./NodeActions";
import { testWords } from "./testing";

const REFRESH_MS = 5_000;
/** The map of nodes comes without the library of the plots. */
const NodeFigures = lazy(() => import("./NodeFigures"));

export type NodeDetail = Schemas["NodeDetail"];

/** One node: why it takes no work, its amounts, its runs, its health history, its taints, and its figures over time. */
export function NodePanel({ name, close }: { name: string; close: () => void }) {
  const node = useQuery({
    queryKey: ["node", name],
    queryFn: async () => contentOf(await client.GET("/v1/nodes/{name}", { params: { path: { name } } })),
    refetchInterval: REFRESH_MS,
  });
  return (
    <SidePanel label={`Node ${name}`} head={<PanelTitle>{name}</PanelTitle>} close={close}>
      {node.error && <Problem error={node.error} retry={() => void node.refetch()} />}
      {!node.data && !node.error && <Skeleton variant="rectangular" height={240} />}
      {node.data && <Details node={node.data} />}
    </SidePanel>
  );
}

function Details({ node }: { node: NodeDetail }) {
  return (
    <>
      <Typography sx={{ my: 2 }}>{node.why ? `Takes no work: ${node.why}` : "Takes work"}</Typography>
      <NodeActions node={node} />
      <Amounts node={node} />
      <Part title="Runs on it" empty="Nothing runs on it.">
        {node.members.map((member) => (
          <li key={`${member.holder} ${member.pod}`}>
            {member.isRun ? <Link to={`/runs/${member.holder.split("/").map(encodeURIComponent).join("/")}`}>{member.holder}</Link> : `Pod ${member.holder}`}
            {member.rank !== null && (
              <>
                , <Link to={figuresOf(member.holder, member.rank)}>{`rank ${member.rank}`}</Link>
              </>
            )}
            {member.owner && ` of ${member.owner}`}
            <Faint>
              {[member.gpus && counted(`${member.gpus}`, "GPU"), counted(cpus(member.cpuMillis), "CPU"), bytes(member.memoryBytes)].filter(Boolean).join(", ")} for{" "}
              <Age time={member.since} lasting />
            </Faint>
          </li>
        ))}
      </Part>
      <Part title="Health" empty="No failure, test or drain was recorded.">
        {[...node.health].reverse().map((entry) => (
          <li key={`${entry.at} ${entry.what} ${entry.reason}`}>
            {entry.says}
            <Faint>
              <Age time={entry.at} />
            </Faint>
          </li>
        ))}
      </Part>
      {node.test && (
        <Part title="Test">
          <li>
            {testWords(node.test, node.members.some(({ holder }) => holder !== `${node.test?.namespace}/${node.test?.run}`))}{" "}
            {node.test.run && <Link to={`/runs/${encodeURIComponent(node.test.namespace ?? "")}/${encodeURIComponent(node.test.run)}`}>Its log</Link>}
            {node.test.at && (
              <Faint>
                <Age time={node.test.at} />
              </Faint>
            )}
          </li>
        </Part>
      )}
      <Part title="Taints" empty="None.">
        {node.taints.map((taint) => (
          <li key={taint}>
            <code style={{ fontSize: 12.5 }}>{taint}</code>
          </li>
        ))}
      </Part>
      <Suspense fallback={<Skeleton variant="rectangular" height={480} />}>
        <NodeFigures node={node} />
      </Suspense>
      <Box component="details" sx={{ my: 3 }}>
        <summary>Labels</summary>
        <PlainList>
          {Object.entries(node.labels).map(([key, value]) => (
            <li key={key}>
              <code>
                {key}={value}
              </code>
            </li>
          ))}
        </PlainList>
      </Box>
      <CopyLine text={`kaji nodes ${node.name}`} />
    </>
  );
}

/** The address of a member's figures. */
function figuresOf(holder: string, rank: number): string {
  return `/runs/${holder.split("/").map(encodeURIComponent).join("/")}?tab=figures&rank=${rank}`;
}

function counted(number: string, one: string): string {
  return `${number} ${one}${number === "1" ? "" : "s"}`;
}

function Amounts({ node }: { node: NodeDetail }) {
  const degrees = useTemperatures(node.gpus.total > 0)[node.name];
  const places = Object.values(node.domains).join(" · ");
  const amounts: [string, string][] = [
    ...(node.gpus.total ? [[`${node.gpuType || "GPUs"}`, `${node.gpus.used} of ${node.gpus.total} in use`] as [string, string]] : []),
    ...Object.entries(node.partialGpus).map(([type, { used, total }]): [string, string] => [type, `${used} of ${total} in use`]),
    ["CPUs", `${cpus(node.cpuMillis.used)} of ${cpus(node.cpuMillis.total)} reserved`],
    ["Memory", `${bytes(node.memoryBytes.used)} of ${bytes(node.memoryBytes.total)} reserved`],
    ...(degrees === undefined ? [] : [["Hottest GPU", `${degrees} °C`] as [string, string]]),
    ["Pods", `${node.pods.used} of ${node.pods.total}`],
    ...(places ? [["Place", places] as [string, string]] : []),
  ];
  return (
    <Box component="dl" sx={{ display: "grid", gridTemplateColumns: "auto 1fr", columnGap: 4, rowGap: 1, my: 3, "& dd": { m: 0 }, "& dt": { color: "text.secondary" } }}>
      {amounts.map(([word, amount]) => (
        <Box key={word} sx={{ display: "contents" }}>
          <dt>{word}</dt>
          <dd>{amount}</dd>
        </Box>
      ))}
      <dt>Joined</dt>
      <dd>
        <Age time={node.createdAt} />
      </dd>
    </Box>
  );
}
