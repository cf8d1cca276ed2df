import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import Skeleton from "@mui/material/Skeleton";
import ToggleButton from "@mui/material/ToggleButton";
import ToggleButtonGroup from "@mui/material/ToggleButtonGroup";
import Typography from "@mui/material/Typography";
import { useMutation } from "@tanstack/react-query";
import { useView } from "../address/useAddress";
import { Problem } from "../app/Problem";
import { StartButton } from "../runs/StartButton";
import { CopyLine } from "../common/CopyLine";
import { saveFile } from "../common/saveFile";
import { Since } from "../words/times/Since";
import { Bars } from "./Bars";
import { LostTime } from "./LostTime";
import { MeasureChoice } from "./MeasureChoice";
import { hasHours } from "./overTime";
import { OverTime } from "./OverTime";
import { OwnerChooser } from "../choices/OwnerChooser";
import { PastTabs } from "../choices/PastTabs";
import { daysOf, timesOf } from "../choices/span";
import { SpanChooser } from "../choices/SpanChooser";
import { TeamChooser } from "../choices/TeamChooser";
import { Totals } from "./Totals";
import { BY, commandOf, csvOf, isByTime, largestInWords, measureOf, parametersOf, questionOf, type By, type Question, type Usage } from "./usage";
import { UsageTable } from "./UsageTable";
import { readUsage, useUsage } from "./useUsage";

/** The usage of a time span: by whom, its cost, and how much of it was productive. The address holds the choice. */
export function UsagePage() {
  const [question, change] = useView(questionOf, parametersOf);
  const usage = useUsage(question);
  return (
    <>
      <PastTabs />
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 3 }}>
        <Typography variant="h1" sx={{ flex: "1 1 auto" }}>
          Usage
        </Typography>
        <Since currentAt={usage.dataUpdatedAt} error={usage.error} />
        <ToggleButtonGroup size="small" exclusive value={question.by} onChange={(_, by: By | null) => by && change({ by })} aria-label="By">
          {[...BY].filter(([by]) => by !== "hour" || by === question.by || hasHours(question.span, Date.now())).map(([by, { word }]) => (
            <ToggleButton key={by} value={by}>
              {word}
            </ToggleButton>
          ))}
        </ToggleButtonGroup>
      </Box>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 3, mb: 4 }}>
        <SpanChooser span={question.span} choose={(span) => change({ span })} />
        <TeamChooser team={question.team} choose={(team) => change({ team })} />
        <OwnerChooser owner={question.owner} choose={(owner) => change({ owner })} />
      </Box>
      {usage.error && !usage.data && <Problem error={usage.error} retry={() => void usage.refetch()} />}
      {!usage.data && !usage.error && <Skeleton variant="rectangular" height={320} />}
      {usage.data && <Answer usage={usage.data} question={question} change={change} />}
    </>
  );
}

interface AnswerProperties {
  usage: Usage;
  question: Question;
  change: (part: Partial<Question>) => void;
}

function Answer({ usage, question, change }: AnswerProperties) {
  if (!usage.items.length) return <Nothing usage={usage} question={question} />;
  const measure = measureOf(usage, question.measure);
  return (
    <Box sx={{ display: "grid", gap: 8, gridTemplateColumns: { xs: "minmax(0, 1fr)", lg: "minmax(0, 5fr) minmax(0, 3fr)" } }}>
      <Box sx={{ minWidth: 0 }}>
        <Typography>
          <span title={timesOf(usage)}>{daysOf(usage)}</span>: {largestInWords(usage, measure)}
        </Typography>
        <Totals usage={usage} />
        <MeasureChoice usage={usage} measure={measure} choose={(chosen) => change({ measure: chosen })} />
        <OverTime question={question} />
        {!isByTime(usage.by) && <Bars usage={usage} measure={measure} />}
        <UsageTable usage={usage} question={question} measure={measure} />
        <Taking usage={usage} question={question} />
      </Box>
      <LostTime question={question} />
    </Box>
  );
}

/** The ways to take the numbers elsewhere: a file, and a line for a terminal. */
function Taking({ usage, question }: { usage: Usage; question: Question }) {
  const isWhole = usage.count <= usage.items.length;
  const save = useMutation({
    mutationFn: async () => {
      const whole = isWhole ? usage : await readUsage(question);
      saveFile(`usage-by-${whole.by}.csv`, csvOf(whole));
    },
  });
  return (
    <Box sx={{ my: 4 }}>
      {!isWhole && (
        <Typography color="textSecondary" gutterBottom>
          The largest {usage.items.length.toLocaleString()} of {usage.count.toLocaleString()}; the file has all.
        </Typography>
      )}
      {save.error && <Problem error={save.error} />}
      <Button size="small" variant="outlined" disabled={save.isPending} onClick={() => save.mutate()} sx={{ mb: 3 }}>
        Save as CSV
      </Button>
      <CopyLine text={commandOf(question, Date.now())} />
    </Box>
  );
}

function Nothing({ usage, question }: { usage: Usage; question: Question }) {
  return (
    <Box sx={{ maxWidth: 640 }}>
      <Typography gutterBottom>
        No run held a node: {daysOf(usage)}. {question.owner || question.team ? "Choose other runs or a longer time." : "Usage counts from the first run on."}
      </Typography>
      <CopyLine text={commandOf(question, Date.now())} />
      <StartButton />
    </Box>
  );
}
