/** What a console says that is empty. */
import type { PanelState } from "./Panel";

export const NOTHING_PRINTED: PanelState = {
  kind: "empty",
  title: "Nothing was printed, or it was not kept",
  text: (
    <>
      What a run prints is kept unless <code className="font-mono">console=False</code> or{" "}
      <code className="font-mono">MIDSTEP_CONSOLE=off</code> says otherwise.
    </>
  ),
};
