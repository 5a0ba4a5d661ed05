import { useEffect, useState } from "react";

const RENEW_MS = 15_000;

/** Seconds since 1970, updated rarely: ages on the page are shown in minutes. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), RENEW_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}
