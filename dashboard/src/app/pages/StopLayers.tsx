/** Beside the batch of a diagnosed stop: its layers where a value is not finite, else the step data as always. */
import DiagnosedLayers from "@/features/diagnosis/DiagnosedLayers";
import { StepDataPanel } from "@/features/panels/StepDataPanel";
import { useDiagnosis } from "@/live/diagnosis";
import { Panel } from "@/ui";

interface StopLayersProps {
  onPanels: () => void;
  stale: string | null;
}

export default function StopLayers({ onPanels, stale }: StopLayersProps) {
  const diagnosis = useDiagnosis();
  if (diagnosis === null) return <Panel title="Layers" className="h-full" />;
  if (diagnosis.layers.length === 0) return <StepDataPanel onPanels={onPanels} stale={stale} />;
  return <DiagnosedLayers diagnosis={diagnosis} stale={stale} />;
}
