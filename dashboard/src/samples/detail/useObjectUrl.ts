/** An address for bytes, as an image or a sound element cannot send a token. */
import { useEffect, useState } from "react";

export function useObjectUrl(blob: Blob | null): string | null {
  const [address, setAddress] = useState<string | null>(null);
  useEffect(() => {
    if (blob === null) return setAddress(null);
    const created = URL.createObjectURL(blob);
    setAddress(created);
    return () => URL.revokeObjectURL(created);
  }, [blob]);
  return address;
}
