import Box from "@mui/material/Box";
import Skeleton from "@mui/material/Skeleton";
import Typography from "@mui/material/Typography";
import { Problem } from "../app/Problem";
import { Since } from "../words/times/Since";
import { Guarantees } from "./Guarantees";
import { Holdings } from "./Holdings";
import { MonthUse } from "./MonthUse";
import { TypeBar } from "./TypeBar";
import { useBoard } from "./useBoard";

/** Which GPUs are at work, idle, free and take no work, and who holds them: made to be shown on a wall. People who are signed in also see what teams are guaranteed. */
export function BoardPage({ isOpen = false }: { isOpen?: boolean }) {
  const board = useBoard();
  if (board.error && !board.data) return <Problem error={board.error} retry={() => void board.refetch()} />;
  if (!board.data) return <Skeleton variant="rectangular" height={320} />;
  return (
    <>
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "center", gap: 4, mb: 5 }}>
        <Typography variant="h1" sx={{ flex: 1 }}>
          GPUs
        </Typography>
        <Since currentAt={board.dataUpdatedAt} error={board.error} />
      </Box>
      {board.data.types.length ? (
        board.data.types.map((found) => <TypeBar key={found.type} found={found} />)
      ) : (
        <Typography color="textSecondary">No node of this cluster has GPUs.</Typography>
      )}
      <Box sx={{ display: "flex", flexWrap: "wrap", alignItems: "flex-start", columnGap: 8 }}>
        {board.data.holdings.length > 0 && (
          <Box sx={{ flex: "3 1 600px", minWidth: 0 }}>
            <Holdings board={board.data} />
          </Box>
        )}
        <Box sx={{ flex: "2 1 400px", minWidth: 0 }}>
          <MonthUse />
        </Box>
      </Box>
      {!isOpen && <Guarantees />}
    </>
  );
}
