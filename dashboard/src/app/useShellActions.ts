import { useEffect } from "react";
import { useLocation } from "wouter";
import { registerActions, useAction } from "@/lib/actions";
import { askStop, openDialog } from "@/lib/dialogs";
import { formatCount } from "@/lib/format";
import { switchTheme, useTheme } from "@/lib/theme";
import { toggleOf } from "@/live/commandAvailability";
import { runVerb } from "@/live/commands";
import { useCommandReason, useRunState, useVerb } from "@/live/hooks";
import { goBack } from "@/live/rewind";
import { RUN_TO_FIELD, useStepInputs } from "@/live/stepInputs";
import { useGo } from "./navigation";
import { PAGES, PAGES_WITHOUT_RUN } from "./routes";

/** What can be done from everywhere; panels add their own. */
export function useShellActions(): void {
  useRunActions();
  usePageActions();
}

function useRunActions(): void {
  const toggle = useRunState(toggleOf) ?? "resume";
  const { n } = useStepInputs();
  const pause = useVerb("pause");
  const resume = useVerb("resume");
  const step = useVerb("step");
  const back = useVerb("back");
  const hparams = useCommandReason("set_hparams");
  const determinism = useCommandReason("determinism_health");
  const runTo = useVerb("run_until");
  const stop = useVerb("stop");
  const [location] = useLocation();
  // A key must not move a run that is not on the screen.
  const unseen = PAGES_WITHOUT_RUN.has(location) ? "Open the run first" : null;
  const group = "Run";
  useAction({
    id: "pause-resume",
    title: toggle === "pause" ? "Pause" : "Resume",
    group,
    keys: "Space",
    words: "pause resume play continue",
    disabledReason: unseen ?? (toggle === "pause" ? pause : resume).disabledReason,
    run: () => void runVerb(toggle, {}),
  });
  useAction({
    id: "step",
    title: "Step",
    group,
    keys: "→",
    disabledReason: unseen ?? step.disabledReason,
    run: () => void runVerb("step", { n: 1 }),
  });
  useAction({
    id: "step-n",
    title: `Step ${formatCount(n)} steps`,
    group,
    keys: "Shift →",
    disabledReason: unseen ?? step.disabledReason,
    run: () => void runVerb("step", { n: useStepInputs.getState().n }),
  });
  useAction({
    id: "back",
    title: "Back one step",
    group,
    keys: "←",
    words: "rewind undo step",
    disabledReason: unseen ?? back.disabledReason,
    run: () => void goBack({ n: 1 }),
  });
  useAction({
    id: "back-n",
    title: `Back ${formatCount(n)} steps`,
    group,
    keys: "Shift ←",
    words: "rewind",
    disabledReason: unseen ?? back.disabledReason,
    run: () => void goBack({ n: useStepInputs.getState().n }),
  });
  useAction({
    id: "hyperparameters",
    title: "Set learning rate and other hyperparameters…",
    group,
    words: "lr weight decay momentum",
    disabledReason: unseen ?? hparams,
    run: () => openDialog("hyperparameters"),
  });
  useAction({
    id: "determinism",
    title: "Determinism check…",
    group,
    words: "determinism certificate health",
    disabledReason: unseen ?? determinism,
    run: () => openDialog("determinism"),
  });
  useAction({
    id: "run-to",
    title: "Run to…",
    group,
    keys: "N",
    words: "until step",
    disabledReason: location.startsWith("/live") ? runTo.disabledReason : "Open Live first",
    run: () => focusField(RUN_TO_FIELD),
  });
  useAction({
    id: "stop",
    title: "Stop run",
    group,
    disabledReason: unseen ?? stop.disabledReason,
    run: askStop,
  });
}

function usePageActions(): void {
  const go = useGo();
  const theme = useTheme();
  useEffect(
    () =>
      registerActions(
        PAGES.map(({ name, path, keys }) => ({
          id: `go-${path}`,
          title: name,
          group: "Go to",
          keys,
          run: () => go(path),
        })),
      ),
    [go],
  );
  useAction({
    id: "theme",
    title: theme === "dark" ? "Light theme" : "Dark theme",
    group: "View",
    keys: "T",
    words: "dark light colour mode",
    run: switchTheme,
  });
  useAction({
    id: "filter",
    title: "Filter this panel",
    group: "View",
    keys: "/",
    words: "find",
    run: focusFilter,
  });
  useAction({
    id: "palette",
    title: "Search and commands",
    group: "Help",
    keys: "Ctrl K",
    run: () => openDialog("palette"),
  });
  useAction({
    id: "shortcuts",
    title: "Keyboard shortcuts",
    group: "Help",
    keys: "?",
    words: "shortcuts help",
    run: () => openDialog("shortcuts"),
  });
}

function focusField(id: string): void {
  const field = document.getElementById(id);
  field?.focus();
  if (field instanceof HTMLInputElement) field.select();
}

/** The filter of the panel that has focus, else the first on the page. */
function focusFilter(): void {
  const panel = document.activeElement?.closest("section");
  const filter = panel?.querySelector("[data-filter]") ?? document.querySelector("[data-filter]");
  if (filter instanceof HTMLElement) filter.focus();
}
