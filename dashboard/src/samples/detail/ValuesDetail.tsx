/** The values of a sample that is nothing to look at: columns with their names, or plain numbers. */
import { fromWire, type SampleOut } from "@/api/types";
import { formatValue } from "@/lib/format";
import { NanMark } from "@/samples/NanMark";

/** Values that fit into the dialog; `format=safetensors` gives all of them. */
const MAX_VALUES = 512;
const NON_FINITE = new Set(["NaN", "Infinity", "-Infinity"]);

type WireCell = number | string;

export function Cell({ value }: { value: WireCell }) {
  if (typeof value === "string" && NON_FINITE.has(value))
    return <NanMark>{formatValue(Number(value))}</NanMark>;
  return <>{typeof value === "number" && !Number.isInteger(value) ? formatValue(value) : String(value)}</>;
}

export function Columns({ sample }: { sample: SampleOut }) {
  if (!sample.columns?.length) return null;
  return (
    <dl className="grid max-h-[320px] max-w-[640px] grid-cols-[max-content_minmax(0,1fr)] gap-x-4 gap-y-1 overflow-auto">
      {sample.columns.map(({ name, role, cells }) => (
        <div key={`${role} ${name}`} className="contents">
          <dt className="text-t3">{role === "target" ? `target: ${name}` : name}</dt>
          <dd className="whitespace-pre-wrap wrap-anywhere">
            <Cell value={cells[0] ?? "—"} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

export function Values({ sample }: { sample: SampleOut }) {
  const values = sample.values ?? [];
  if (values.length === 0) return null;
  return (
    <p className="max-h-[320px] max-w-[640px] overflow-auto font-mono wrap-anywhere">
      {values.slice(0, MAX_VALUES).map((value, index) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a value is named by its place
        <span key={index}>
          {typeof value === "number" ? formatValue(value) : <Cell value={String(fromWire(value))} />}{" "}
        </span>
      ))}
      {values.length > MAX_VALUES ? " …" : ""}
    </p>
  );
}
