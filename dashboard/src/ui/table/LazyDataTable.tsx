/** The table, loaded when it is first shown: for panels of the first page that show one on demand. */
import { type ComponentProps, lazy, Suspense } from "react";

const Table = lazy(() => import("./DataTable").then(({ DataTable }) => ({ default: DataTable })));

export function LazyDataTable(props: ComponentProps<typeof Table>) {
  return (
    <Suspense fallback={null}>
      <Table {...props} />
    </Suspense>
  );
}
