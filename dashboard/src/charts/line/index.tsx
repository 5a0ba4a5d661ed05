/** The line chart, loaded when the first one is shown: uPlot is not part of the first load. */
import { lazy, Suspense } from "react";
import type { LineChartProps } from "./LineChart";

const Chart = lazy(() => import("./LineChart"));

export function LineChart(props: LineChartProps) {
  return (
    <Suspense fallback={<div className="min-h-0 flex-1" />}>
      <Chart {...props} />
    </Suspense>
  );
}
