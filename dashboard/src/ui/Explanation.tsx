interface ExplanationProps {
  title: string;
  means: string;
  causes: readonly string[];
  advice: readonly string[];
  /** What was measured in this run. */
  finding: string;
}

/** What a finding means, what usually causes it, and what to try. */
export function Explanation({ title, means, causes, advice, finding }: ExplanationProps) {
  return (
    <div className="flex w-80 flex-col gap-2 whitespace-normal">
      <div>
        <p className="font-semibold">{title}</p>
        <p className="text-t3">{finding}</p>
      </div>
      <p className="text-t2">{means}</p>
      <Points title="Usual causes" points={causes} />
      <Points title="What to try" points={advice} />
    </div>
  );
}

function Points({ title, points }: { title: string; points: readonly string[] }) {
  if (!points.length) return null;
  return (
    <div>
      <p className="text-label text-t3">{title}</p>
      <ul className="list-disc pl-4 text-t2">
        {points.map((point) => (
          <li key={point}>{point}</li>
        ))}
      </ul>
    </div>
  );
}
