/** One sample of the batch at full resolution. */
import { formatCount } from "@/lib/format";
import { useSample } from "@/live/batch";
import { useRunId } from "@/live/hooks";
import { SampleDetail } from "@/samples/detail/SampleDetail";
import { Button, Dialog } from "@/ui";

interface SampleDialogProps {
  /** Index of the step. */
  step: number;
  /** Index in the batch. */
  index: number;
  id: number;
  onClose: () => void;
}

export default function SampleDialog({ step, index, id, onClose }: SampleDialogProps) {
  const runId = useRunId();
  const { data: sample, error } = useSample(step, index);
  // While the run is running, the answer may be of a later step, with another sample in this place.
  const shown = sample ? (sample.sample_id ?? sample.index) : id;
  return (
    <Dialog title={`Sample ${formatCount(shown)}`} onClose={onClose} className="p-4">
      <div className="mt-2 flex min-h-40 min-w-80 flex-col gap-2">
        {error && <p className="text-bad">{error.message}</p>}
        {!error && !sample && <p className="text-t3">Loading the sample…</p>}
        {sample && runId !== null && <SampleDetail sample={sample} address={{ runId, index }} />}
      </div>
      <div className="mt-3 flex justify-end">
        <Button data-autofocus onClick={onClose}>
          Close
        </Button>
      </div>
    </Dialog>
  );
}
