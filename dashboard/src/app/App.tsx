import { lazy, Suspense } from "react";
import { Redirect, Route, Switch } from "wouter";
import { useRunTable } from "@/api/runList";
import { useRunListFeed, useRuns } from "@/api/runs";
import { closeDialog, useDialog } from "@/lib/dialogs";
import { showToast } from "@/lib/toasts";
import { PanelBoundary, PartBoundary } from "@/ui";
import { AccessPage } from "./AccessPage";
import { Announcer } from "./Announcer";
import { firstPage } from "./navigation";
import { Rail } from "./Rail";
import { PAGES, RUN_PATH, RunPage } from "./routes";
import { Toasts } from "./Toasts";
import { TopBar } from "./TopBar";
import { useDocumentTitle } from "./useDocumentTitle";
import { useFollowedRun } from "./useFollowedRun";
import { useKeyboard } from "./useKeyboard";
import { useShellActions } from "./useShellActions";

const Palette = lazy(() => import("./Palette"));
const ShortcutsDialog = lazy(() => import("./ShortcutsDialog"));
const HyperparametersDialog = lazy(() => import("@/features/hyperparameters/HyperparametersDialog"));
const DeterminismDialog = lazy(() => import("@/features/determinismCheck/DeterminismDialog"));
const StopDialog = lazy(() => import("./StopDialog"));
const NewRunDialog = lazy(() => import("./NewRunDialog"));
const DeleteDialog = lazy(() => import("./DeleteDialog"));

/** The frame around every page: rail, top bar, page, messages, dialogs. */
export function App() {
  useRunListFeed();
  const isRefused = useRunTable((table) => table.refused);
  if (isRefused) return <AccessPage />;
  return (
    <div className="flex h-full">
      <Rail />
      <div className="flex min-w-0 flex-1 flex-col low:overflow-y-auto">
        <TopBar />
        <PanelBoundary title="Page">
          <Suspense fallback={<main className="flex-1" />}>
            <Switch>
              {PAGES.map(({ path, Page }) => (
                <Route key={path} path={path} component={Page} />
              ))}
              <Route path={RUN_PATH} component={RunPage} />
              <Route component={FirstPage} />
            </Switch>
          </Suspense>
        </PanelBoundary>
      </div>
      <Background />
      <Toasts />
      <Announcer />
      <Dialogs />
    </div>
  );
}

/** Where one arrives without an address: at what is live, else at the list, unless there is nothing to choose. */
function FirstPage() {
  const runs = useRuns();
  const hasFailed = useRunTable((table) => table.error !== null);
  if (runs === undefined && !hasFailed) return <main className="flex-1" />;
  return <Redirect to={firstPage(runs) + window.location.search} replace />;
}

/** Effects without markup, in their own component, so that their ticks redraw nothing else. */
function Background() {
  useFollowedRun();
  useShellActions();
  useKeyboard();
  useDocumentTitle();
  return null;
}

function Dialogs() {
  const { open, about } = useDialog();
  return (
    <PartBoundary key={open} onFailure={reportUnloadedDialog}>
      <Suspense>
        {open === "palette" && <Palette onClose={closeDialog} />}
        {open === "shortcuts" && <ShortcutsDialog onClose={closeDialog} />}
        {open === "hyperparameters" && <HyperparametersDialog onClose={closeDialog} />}
        {open === "determinism" && <DeterminismDialog onClose={closeDialog} />}
        {open === "stop" && <StopDialog about={about} onClose={closeDialog} />}
        {open === "new-run" && <NewRunDialog onClose={closeDialog} />}
        {open === "delete-run" && about !== null && <DeleteDialog about={about} onClose={closeDialog} />}
      </Suspense>
    </PartBoundary>
  );
}

function reportUnloadedDialog(): void {
  closeDialog();
  const text = "The server did not send its code. Reload the page when the server answers again.";
  showToast({ kind: "failed", title: "This dialog could not be opened.", text });
}
