import { useQuery } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { createBrowserRouter, Navigate, RouterProvider } from "react-router";
import { PROGRAMS, whoAmI } from "../api/signIn";
import { RunsPage } from "../runs/RunsPage";
import { BrokenPage, PartBoundary } from "./Broken";
import { Frame } from "./Frame";
import { NoPage } from "./NoPage";
import { fetched, later } from "./parts";
import { Problem } from "./Problem";
import { SignInPage } from "./SignInPage";

const pages = [
  { path: "/", element: <Navigate to="/runs" replace /> },
  { path: "/runs/:namespace?/:name?", element: <RunsPage /> },
  { path: "/start", lazy: () => fetched(async () => ({ Component: (await import("../start/StartPage")).StartPage })) },
  { path: "/queue/:namespace?/:name?", lazy: () => fetched(async () => ({ Component: (await import("../queue/QueuePage")).QueuePage })) },
  { path: "/compare", lazy: () => fetched(async () => ({ Component: (await import("../compare/ComparePage")).ComparePage })) },
  { path: "/cluster/:node?", lazy: () => fetched(async () => ({ Component: (await import("../cluster/ClusterPage")).ClusterPage })) },
  { path: "/board", lazy: () => fetched(async () => ({ Component: (await import("../board/BoardPage")).BoardPage })) },
  { path: "/usage", lazy: () => fetched(async () => ({ Component: (await import("../usage/UsagePage")).UsagePage })) },
  { path: "/history", lazy: () => fetched(async () => ({ Component: (await import("../history/HistoryPage")).HistoryPage })) },
  { path: "/audit", lazy: () => fetched(async () => ({ Component: (await import("../history/AuditPage")).AuditPage })) },
  { path: "/events", lazy: () => fetched(async () => ({ Component: (await import("../events/EventsPage")).EventsPage })) },
  { path: "/mine", lazy: () => fetched(async () => ({ Component: (await import("../mine/MinePage")).MinePage })) },
  { path: "/policy", lazy: () => fetched(async () => ({ Component: (await import("../policy/PolicyPage")).PolicyPage })) },
  { path: "/networks", lazy: () => fetched(async () => ({ Component: (await import("../networks/NetworksPage")).NetworksPage })) },
  { path: "/sweeps/:namespace?/:name?", lazy: () => fetched(async () => ({ Component: (await import("../sweeps/SweepsPage")).SweepsPage })) },
];

const everyAddress = [...pages, { path: "*", element: <NoPage /> }];

const router = createBrowserRouter([
  {
    element: <Frame />,
    // While the code of the first page is fetched. Without it React Router warns.
    HydrateFallback: () => null,
    errorElement: <BrokenPage />,
    children: [{ errorElement: <BrokenPage />, children: everyAddress }], // the rail stays beside a broken page
  },
]);

/** The pages for people who are signed in; for all others the ways to sign in. */
export function Session({ refusal }: { refusal: string }) {
  const who = useQuery({ queryKey: ["whoami"], queryFn: whoAmI, refetchInterval: 60_000 });
  const wasIn = useRef(false);
  if (who.data) wasIn.current = true;
  if (who.data && isBeforeProgram()) return <Reload />;
  if (who.data) return <RouterProvider router={router} />;
  if (who.data === null) return <SignedOut refusal={refusal} isLost={wasIn.current} />;
  return who.error ? <Problem error={who.error} retry={() => void who.refetch()} /> : null;
}

/** Whether the server sent this page in place of a program, because the browser was not signed in. */
function isBeforeProgram(): boolean {
  return [PROGRAMS, "/sign-in/program"].some((beginning) => window.location.pathname.startsWith(beginning));
}

/** Load the address again: now that the browser is signed in, the server leads to the program. */
function Reload() {
  useEffect(() => window.location.reload(), []);
  return null;
}

const OpenBoard = later(async () => (await import("../board/OpenBoard")).OpenBoard);

/** The board, if its address is open and policy shows it to everybody; else the ways to sign in. */
function SignedOut({ refusal, isLost }: { refusal: string; isLost: boolean }) {
  const [signsIn, setSignsIn] = useState(window.location.pathname !== "/board");
  const page = <SignInPage refusal={refusal} isLost={isLost} />;
  if (signsIn) return page;
  return (
    <PartBoundary fallback={null}>
      <OpenBoard signIn={() => setSignsIn(true)} otherwise={page} />
    </PartBoundary>
  );
}
