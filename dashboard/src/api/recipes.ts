/** Requests of the form for a new run: scripts and data files of the server, and the composed config. */
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { type ApiError, api } from "./client";
import { putRun } from "./runList";
import type { DataFileList, RecipePreview, RecipeSettingValue, RunRow, ScriptList } from "./types";

/** The scripts that the server may start. */
export function useScripts() {
  return useQuery<ScriptList, ApiError>({
    queryKey: ["scripts"],
    queryFn: ({ signal }) => api.get<"/scripts">("/scripts", signal),
  });
}

/** Starts a script by its id. It answers at its first step; two requests with one id start it once. */
export async function startScript(
  scriptId: string,
  given: { name: string | null; paused: boolean },
  id: string,
): Promise<RunRow> {
  const named = given.name === null ? {} : { name: given.name };
  const { body } = await api.post<"/scripts/{script_id}/runs">(
    `/scripts/${encodeURIComponent(scriptId)}/runs`,
    { ...named, paused: given.paused, id },
  );
  putRun(body);
  return body;
}

/** The files that a setting of the kind `file` can name. */
export function useDataFiles() {
  return useQuery<DataFileList, ApiError>({
    queryKey: ["recipes", "files"],
    queryFn: ({ signal }) => api.get<"/recipes/files">("/recipes/files", signal),
  });
}

/** All settings that a run would have, as YAML. */
export function usePreview(recipe: string, settings: Readonly<Record<string, RecipeSettingValue>>) {
  return useQuery<RecipePreview, ApiError>({
    queryKey: ["recipes", "preview", recipe, settings],
    queryFn: async () =>
      (await api.post<"/recipes/preview">("/recipes/preview", { recipe, settings: { ...settings } })).body,
    placeholderData: keepPreviousData,
    retry: false,
  });
}
