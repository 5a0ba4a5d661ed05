/** A value that is not finite, in a colour that cannot be missed, with the word. */
export function NanMark({ children = "NaN" }: { children?: string }) {
  return <span className="rounded-chip bg-nan px-1 font-medium text-on-nan">{children}</span>;
}
