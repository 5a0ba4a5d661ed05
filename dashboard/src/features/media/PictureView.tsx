/** A logged picture at whole pixels; a click shows it as large as the window allows. */
import { useEffect, useState } from "react";
import { readMediaPicture } from "@/api/media";
import type { PictureOut } from "@/api/types";
import { useSize } from "@/charts/useSize";
import { Dialog } from "@/ui";
import { pictureText, pixelZoom } from "./media";

interface PictureViewProps {
  runId: string;
  groupId: string;
  number: number;
  picture: PictureOut;
  /** What it is, for those who cannot see it. */
  label: string;
}

/** A picture is enlarged up to this height beside the others. */
const MOST_HEIGHT = 240;
const MOST_ZOOM = 16;

export function PictureView(props: PictureViewProps) {
  const { picture, label } = props;
  const [container, { width: room }] = useSize<HTMLDivElement>();
  const [isOpen, setOpen] = useState(false);
  const address = usePicture(props);
  const zoom = Math.min(
    MOST_ZOOM,
    pixelZoom(picture.width, picture.height, { width: room, height: MOST_HEIGHT }),
  );
  const size = { width: picture.width * zoom, height: picture.height * zoom };
  return (
    <div ref={container} className="min-w-0 overflow-auto">
      <button
        type="button"
        aria-label={`Enlarge ${label}`}
        onClick={() => setOpen(true)}
        className="block rounded-mark"
        style={size}
      >
        <Pixels address={address} label={label} size={size} />
      </button>
      {isOpen && <Large {...props} address={address} onClose={() => setOpen(false)} />}
    </div>
  );
}

interface LargeProps extends PictureViewProps {
  address: string | null;
  onClose: () => void;
}

function Large({ picture, label, address, onClose }: LargeProps) {
  const { innerWidth, innerHeight } = window;
  const zoom = pixelZoom(picture.width, picture.height, {
    width: innerWidth * 0.85,
    height: innerHeight * 0.75,
  });
  const size = { width: picture.width * zoom, height: picture.height * zoom };
  return (
    <Dialog title={label} onClose={onClose} className="p-4">
      <div className="mt-2 max-h-[75vh] max-w-[85vw] overflow-auto">
        <Pixels address={address} label={label} size={size} />
      </div>
      <p className="mt-2 text-t3">
        {pictureText(picture)} · {zoom} : 1
      </p>
    </Dialog>
  );
}

interface PixelsProps {
  address: string | null;
  label: string;
  size: { width: number; height: number };
}

function Pixels({ address, label, size }: PixelsProps) {
  if (address === null) return <span className="block rounded-mark bg-s2" style={size} />;
  return (
    <img
      src={address}
      alt={label}
      className="block max-w-none"
      style={{ ...size, imageRendering: "pixelated" }}
    />
  );
}

/** The picture as an address of this page's own: an image element alone would carry no token. The one before stays until it is there. */
function usePicture({ runId, groupId, number }: PictureViewProps): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    const closing = new AbortController();
    readMediaPicture(runId, groupId, number, closing.signal)
      .then((blob) => setAddress(URL.createObjectURL(blob)))
      // It may have made room for newer ones meanwhile; the list is read again soon.
      .catch(() => undefined);
    return () => closing.abort();
  }, [runId, groupId, number]);
  useEffect(() => () => URL.revokeObjectURL(address ?? ""), [address]);
  return address;
}
