import type { Plugin } from "vite";

export function licences(own: readonly string[]): Plugin;
