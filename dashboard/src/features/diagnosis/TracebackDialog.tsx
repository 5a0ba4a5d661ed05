/** The traceback of the error that ended the run. */
import { useStop } from "@/live/diagnosis";
import { Button, Dialog } from "@/ui";

const VIEW_ONLY =
  "A view-only link gets no traceback, because it may contain values of the program. Ask for a link that can control the run.";

export default function TracebackDialog({ onClose }: { onClose: () => void }) {
  const failure = useStop()?.failure ?? null;
  const { error = "", traceback = null } = failure ?? {};
  return (
    <Dialog title="Traceback" onClose={onClose} className="w-[min(880px,calc(100vw-32px))] p-4">
      <p className="mt-2 font-medium text-bad">{error}</p>
      {traceback === null ? (
        <p className="mt-2 text-t2">{failure === null ? "Loading…" : VIEW_ONLY}</p>
      ) : (
        <pre
          // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
          tabIndex={0}
          className="mt-2 max-h-[60vh] overflow-auto rounded-control bg-s2 p-3 font-mono text-t2"
        >
          {traceback}
        </pre>
      )}
      <div className="mt-4 flex justify-end">
        <Button data-autofocus="" onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}
