/** The line chart, loaded when the first one is shown: uPlot is not part of the first load. */
import { lazy, Suspense } from "react";
import { preload } from "@/lib/preload";
import type { LineChartProps } from "./LineChart";

const loadChart = () => import("./LineChart");
const Chart = lazy(loadChart);

/** Starts to load the chart, for a panel that draws it only once its data is there. */
export const preloadLineChart = () => preload(loadChart);

export function LineChart(props: LineChartProps) {
  return (
    <Suspense fallback={<div className="min-h-0 flex-1" />}>
      <Chart {...props} />
    </Suspense>
  );
}
