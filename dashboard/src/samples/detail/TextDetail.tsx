/** The whole text of a sample, wrapped and never cut; with the borders of its tokens where they are known. */
import type { SampleOut } from "@/api/types";
import { formatCount } from "@/lib/format";

interface TextDetailProps {
  sample: Pick<SampleOut, "text" | "tokens" | "pieces">;
  className?: string;
}

export default function TextDetail({ sample, className = "" }: TextDetailProps) {
  const { text, tokens, pieces } = sample;
  if (tokens !== null && tokens.length > 0) return <Tokens {...{ tokens, pieces, className }} />;
  return (
    <p className={`max-w-[76ch] whitespace-pre-wrap wrap-anywhere ${className}`}>
      {text === null || text === "" ? <span className="text-t3">The text is empty.</span> : text}
    </p>
  );
}

interface TokensProps {
  tokens: readonly number[];
  pieces: readonly string[] | null;
  className: string;
}

/** Each token underlined on its own; its number is in its title. */
function Tokens({ tokens, pieces, className }: TokensProps) {
  return (
    <p className={`max-w-[96ch] font-mono leading-6 whitespace-pre-wrap wrap-break-word ${className}`}>
      {tokens.map((token, index) => {
        const piece = pieces?.[index];
        return (
          <span
            // biome-ignore lint/suspicious/noArrayIndexKey: a token is named by its place
            key={index}
            title={`token ${formatCount(index + 1)} of ${formatCount(tokens.length)}, number ${token}`}
            className="mr-px border-b-2 border-line2 hover:border-accent hover:bg-accent-soft"
          >
            {piece === undefined ? `${token} ` : visible(piece)}
          </span>
        );
      })}
    </p>
  );
}

/** A piece that would not be seen gets a sign: the end of a line, nothing at all. */
function visible(piece: string): string {
  if (piece === "") return "∅";
  return piece.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥");
}
