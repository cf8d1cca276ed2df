import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useState } from "react";
import { createBrowserRouter, Navigate, RouterProvider } from "react-router";
import { whoAmI } from "../api/signIn";
import { RunsPage } from "../runs/RunsPage";
import { Frame } from "./Frame";
import { Problem } from "./Problem";
import { SignInPage } from "./SignInPage";

const router = createBrowserRouter([
  {
    element: <Frame />,
    children: [
      { path: "/", element: <Navigate to="/runs" replace /> },
      { path: "/runs", element: <RunsPage /> },
      { path: "/start", lazy: async () => ({ Component: (await import("../start/StartPage")).StartPage }) },
      { path: "/queue/:namespace?/:name?", lazy: async () => ({ Component: (await import("../queue/QueuePage")).QueuePage }) },
      { path: "/cluster/:node?", lazy: async () => ({ Component: (await import("../cluster/ClusterPage")).ClusterPage }) },
      { path: "/board", lazy: async () => ({ Component: (await import("../board/BoardPage")).BoardPage }) },
      { path: "/usage", lazy: async () => ({ Component: (await import("../usage/UsagePage")).UsagePage }) },
      { path: "/history", lazy: async () => ({ Component: (await import("../history/HistoryPage")).HistoryPage }) },
      { path: "/audit", lazy: async () => ({ Component: (await import("../history/AuditPage")).AuditPage }) },
      { path: "/mine", lazy: async () => ({ Component: (await import("../mine/MinePage")).MinePage }) },
      { path: "/networks", lazy: async () => ({ Component: (await import("../networks/NetworksPage")).NetworksPage }) },
      { path: "/sweeps", lazy: async () => ({ Component: (await import("../sweeps/SweepsPage")).SweepsPage }) },
      { path: "/sweeps/:namespace/:name", lazy: async () => ({ Component: (await import("../sweeps/SweepPage")).SweepPage }) },
      { path: "/runs/:namespace/:name", lazy: async () => ({ Component: (await import("../run/RunPage")).RunPage }) },
    ],
  },
]);

/** The pages for somebody who is signed in, else the ways to sign in. */
export function Session({ refusal }: { refusal: string }) {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI, refetchInterval: 60_000 });
  if (who.data) return <RouterProvider router={router} />;
  if (who.data === null) return <SignedOut refusal={refusal} />;
  return who.error ? <Problem error={who.error} retry={() => void who.refetch()} /> : null;
}

const OpenBoard = lazy(async () => ({ default: (await import("../board/OpenBoard")).OpenBoard }));

/** The board, if its address is open and policy shows it to everybody; else the ways to sign in. */
function SignedOut({ refusal }: { refusal: string }) {
  const [signsIn, setSignsIn] = useState(window.location.pathname !== "/board");
  const page = <SignInPage refusal={refusal} />;
  if (signsIn) return page;
  return (
    <Suspense fallback={null}>
      <OpenBoard signIn={() => setSignsIn(true)} otherwise={page} />
    </Suspense>
  );
}
