/** The settings of a run as the server composes them, before it starts. */
import { usePreview } from "@/api/recipes";
import type { SettingValue } from "./settings";

interface ComposedPreviewProps {
  recipe: string;
  settings: Readonly<Record<string, SettingValue>>;
}

export function ComposedPreview({ recipe, settings }: ComposedPreviewProps) {
  const { data, error } = usePreview(recipe, settings);
  if (error !== null)
    return (
      <p role="alert" className="text-bad">
        {error.message}
      </p>
    );
  return (
    <section aria-label="Config of the run" className="max-h-36 shrink-0 overflow-auto rounded-control bg-s2">
      <pre className="px-3 py-2 font-mono text-t2">{data?.config ?? "Composing…"}</pre>
    </section>
  );
}
