import Box from "@mui/material/Box";
import Button from "@mui/material/Button";
import type { ReactNode } from "react";
import { Refused } from "../api/client";
import { BoardPage } from "./BoardPage";
import { useBoard } from "./useBoard";

/** The board for people who are not signed in; `otherwise` is shown if policy requires a sign-in for it. */
export function OpenBoard({ signIn, otherwise }: { signIn: () => void; otherwise: ReactNode }) {
  const board = useBoard();
  if (board.error instanceof Refused && [401, 403].includes(board.error.status)) return otherwise;
  return (
    <Box component="main" sx={{ maxWidth: 1600, mx: "auto", p: 4 }}>
      <Box sx={{ display: "flex", justifyContent: "flex-end" }}>
        <Button size="small" onClick={signIn}>
          Sign in
        </Button>
      </Box>
      <BoardPage isOpen />
    </Box>
  );
}
