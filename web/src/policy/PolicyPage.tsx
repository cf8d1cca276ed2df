import Alert from "@mui/material/Alert";
import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Tab from "@mui/material/Tab";
import Tabs from "@mui/material/Tabs";
import Typography from "@mui/material/Typography";
import { useQuery } from "@tanstack/react-query";
import { useAddress, withValues } from "../address/useAddress";
import { client, contentOf } from "../api/client";
import { Problem } from "../app/Problem";
import { MONOSPACE } from "../app/theme";
import { CopyLine } from "../common/CopyLine";
import { sentence } from "../words/sentence";
import { RuleGroups } from "./RuleGroups";
import { yamlOf } from "./yaml";

const REFRESH_MS = 60_000;
const WORDS = "words";
const FILE = "file";

/** The operators' policy in force, to read: in words, and as its file. */
export function PolicyPage() {
  const [parameters, changeAddress] = useAddress();
  const found = useQuery({ queryKey: ["policy"], queryFn: async () => contentOf(await client.GET("/v1/policy")), refetchInterval: REFRESH_MS });
  if (found.error && !found.data) return <Problem error={found.error} retry={() => void found.refetch()} />;
  if (!found.data) return <Skeleton variant="rectangular" height={320} />;
  const { path, policy, rules, faults, findings } = found.data;
  const isFile = parameters.get("as") === FILE;
  return (
    <>
      <Typography variant="h1" sx={{ mb: 3 }}>
        Policy
      </Typography>
      <Typography sx={{ mb: 3, overflowWrap: "anywhere" }}>
        {path ? `What the operators allow and fill in, from ${path}.` : "There is no policy file; this is in force without one."} The form <i>Start</i> says beside each field what your runs may ask for.
      </Typography>
      {faults.length > 0 && (
        <Alert severity="error" variant="outlined" sx={{ mb: 3 }}>
          The newest file is faulty; the policy before it stays in force.
          {faults.map(({ field, message }) => (
            <div key={`${field} ${message}`}>
              {field}: {message}
            </div>
          ))}
        </Alert>
      )}
      {findings.map((finding) => (
        <Alert key={finding} severity="warning" variant="outlined" sx={{ mb: 3 }}>
          {sentence(finding)}
        </Alert>
      ))}
      <Tabs value={isFile ? FILE : WORDS} onChange={(_, next: string) => changeAddress((newest) => withValues(newest, { as: next === FILE ? FILE : "" }))} aria-label="The policy" sx={{ mb: 3 }}>
        <Tab value={WORDS} label="In words" />
        <Tab value={FILE} label="As its file" />
      </Tabs>
      {isFile ? (
        <Box component="pre" tabIndex={0} aria-label="The policy in force" role="region" sx={{ fontFamily: MONOSPACE, fontSize: 12.5, whiteSpace: "pre-wrap", overflowWrap: "anywhere", border: 1, borderColor: "divider", borderRadius: 1, p: 3, my: 3 }}>
          {yamlOf(policy)}
        </Box>
      ) : (
        <RuleGroups groups={rules} />
      )}
      <CopyLine text={isFile ? "kaji policy show" : "kaji policy explain"} />
    </>
  );
}
